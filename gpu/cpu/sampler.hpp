// From one row of logits to a token and log-probabilities. Pure: the answer depends on the logits,
// the slice's parameters, its history and the position alone, never on the batch. Order, that of
// vLLM's sampler (docs.vllm.ai, vllm.v1.sample.sampler): logit bias; penalties (repetition,
// frequency, presence), in greedy sampling too; temperature; top-k; top-p on what top-k left;
// min-p. Tokens that are suppressed or not allowed stay so whatever their bias. Reported
// probabilities are raw. Randomness is a counter: (seed, position) is the whole key.
#pragma once
#include <optional>
#include <utility>
#include <vector>

#include "gpu/cpu/kernels/kernel_table.hpp"
#include "gpu/step_batch.hpp"

namespace troupe::gpu {

struct row_query {
  float* logits = nullptr;  ///< [vocab]; biased, penalised and suppressed ones are overwritten
  std::uint32_t vocab = 0;
  const sequence_slice* slice = nullptr;
  token_id target = -1;  ///< token to score, -1: none
  bool sample = false;
  std::uint32_t position = 0;  ///< of the token to be sampled
};

struct row_answer {
  bool bad_logits = false;
  bool nothing_allowed = false;
  std::optional<scored_token> score;
  std::optional<scored_token> sampled;
  std::vector<scored_token> tails;  ///< one per tail of the slice, when sampled
};

/// One per thread that samples; keeps memory between rows, no state.
class sampler {
 public:
  /// Given the vocabulary it takes its memory at once, so that a server's does not grow with the
  /// largest batch it has seen.
  explicit sampler(const kernel_table& kernels, std::uint32_t vocab = 0)
      : kernels_(kernels), weights_(vocab) {
    candidates_.reserve(vocab);
  }
  row_answer answer(const row_query& query);

 private:
  std::optional<logit_stats> prepare(const row_query& query, const logit_stats& raw,
                                     row_answer& out);
  token_id choose(const row_query& query, const logit_stats& top, std::uint64_t seed);
  void count_history(const sequence_slice& slice, std::uint32_t vocab);
  void adjust(const row_query& query);
  static void keep_allowed(const row_query& query);
  float raw_logit(const row_query& query, token_id token) const;
  token_id draw(const row_query& query, const logit_stats& top, std::uint64_t seed);
  void keep_mass(const row_query& q, double mass);
  void keep_candidates(const row_query& query, double total);

  const kernel_table& kernels_;
  std::vector<float> weights_;        // exp((x - max) / temperature), [vocab]
  std::vector<token_id> candidates_;  // in order of ids, [up to vocab]
  std::vector<double> bucket_mass_;
  // Twice the number of times a token was generated, plus one when it was seen at all, [vocab];
  // all zero between rows.
  std::vector<std::uint32_t> counts_;
  std::vector<token_id> seen_;                       // the distinct tokens of the history
  std::vector<std::pair<token_id, float>> changed_;  // this row's raw logits, where overwritten
};

/// In [0, 1), 53 bits.
double uniform_at(std::uint64_t seed, std::uint64_t position);

}  // namespace troupe::gpu
