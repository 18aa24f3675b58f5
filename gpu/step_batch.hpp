// The arrays one step needs and the values it answers. Plain data: made by the executor from a step
// plan, consumed by a backend; copyable, no pointers, no framework types.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "config/sampling_params.hpp"

namespace troupe::gpu {

/// One sequence's part of a step: `tokens` are appended at positions start, start+1, ...
struct sequence_slice {
  std::uint64_t key = 0;         ///< the caller's tag, copied to the result
  std::uint32_t start = 0;       ///< tokens already in the KV cache
  std::vector<token_id> tokens;  ///< at least one
  std::vector<std::uint32_t>
      blocks;           ///< block table; blocks.size() * block_size >= start + tokens.size()
  bool sample = false;  ///< sample one token from the logits after the last position
  sampling_params sampling;
  std::vector<token_id> suppressed;  ///< never sampled in this step (end tokens below min_tokens)
  /// The tokens before the sampled one, when sampling.needs_history(): the first `history_prompt`
  /// are the prompt's.
  std::vector<token_id> history;
  std::uint32_t history_prompt = 0;
  std::uint32_t mass_top_k =
      0;  ///< > 0: also the raw probability of that many likeliest tokens together
  std::int32_t top_logprobs =
      -1;  ///< -1: none; 0..20: the sampled or scored token's, and the n likeliest
  /// Empty, or one per token of `tokens`: the token whose log-probability after that position is
  /// wanted
  /// (-1: none). How a prompt is scored for `echo`.
  std::vector<token_id> score_targets;
};

struct step_batch {
  std::uint64_t step = 0;
  std::vector<sequence_slice> slices;
};

struct slice_result {
  std::uint64_t key = 0;
  bool bad_logits =
      false;  ///< all logits -inf, or one NaN: nothing was sampled, the rest of the batch is fine
  std::optional<scored_token> sampled;
  std::vector<scored_token> scores;  ///< one per score target >= 0, in order
};

struct step_result {
  std::uint64_t step = 0;
  std::vector<slice_result> slices;  ///< same order as the batch
  std::uint64_t elapsed_us = 0;
};

}  // namespace troupe::gpu
