// The arrays one step needs and the values it answers. Plain data: made by the executor from a step
// plan, consumed by a backend; copyable, no framework types. What a sequence keeps from step to
// step is shared with its planner, not copied.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "config/decode_options.hpp"
#include "config/token_mask.hpp"

namespace troupe::gpu {

/// A whole block, K and V of all layers, copied on the device.
struct copied_block {
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  bool operator==(const copied_block&) const = default;
};

/// Another answer to the same tokens: draws from the same logits by its own seed.
struct sampled_tail {
  std::uint64_t key = 0;  ///< the caller's tag, copied to the result
  std::uint64_t seed = 0;
};

/// One sequence's part of a step: `tokens` are appended at positions start, start+1, ...
struct sequence_slice {
  std::uint64_t key = 0;         ///< the caller's tag, copied to the result
  std::uint32_t start = 0;       ///< tokens already in the KV cache
  std::vector<token_id> tokens;  ///< at least one
  /// Block table, row by row: for each block_size tokens one block of each layer group. It reaches
  /// to start + tokens.size(). The largest value marks a block that was given back, because the
  /// group's window has passed its tokens.
  shared_sequence<std::uint32_t> blocks;
  /// Carried out before any slice of the step computes: how a sequence takes over the partly filled
  /// last block of another (a fork). `to` is a block that this slice writes in this step. `from` is
  /// never a target of the same step, but another slice may write it: what is copied is what it
  /// held before the step.
  std::vector<copied_block> copies;
  bool sample = false;  ///< sample one token from the logits after the last position
  /// Only with `sample`: more tokens drawn at that position, all options but the seed the same.
  std::vector<sampled_tail> tails;
  /// sampling, top_logprobs and confidence->top_k (the mass of that many likeliest tokens) are the
  /// device's; the rest is decided before and after the step.
  shared_decode decode;
  token_bits allowed;                ///< tokens that may be sampled; empty: all
  std::vector<token_id> suppressed;  ///< never sampled in this step, whatever `allowed` says
  /// The tokens before the sampled one, when decode->sampling.needs_history(): the first
  /// `history_prompt` are the prompt's.
  token_sequence history;
  std::uint32_t history_prompt = 0;
  /// Empty, or one per token of `tokens`: the token whose log-probability after that position is
  /// wanted
  /// (-1: none). How a prompt is scored for `echo`.
  std::vector<token_id> score_targets;
};

struct step_batch {
  std::uint64_t step = 0;
  std::vector<sequence_slice> slices;
};

struct tail_result {
  std::uint64_t key = 0;
  scored_token sampled;
};
struct slice_result {
  std::uint64_t key = 0;
  bool bad_logits =
      false;  ///< all logits -inf, or one NaN: nothing was sampled, the rest of the batch is fine
  std::optional<scored_token> sampled;
  std::vector<scored_token> scores;     ///< one per score target >= 0, in order
  std::vector<tail_result> tails = {};  ///< one per tail, in order; none with bad logits
  bool nothing_allowed = false;  ///< the logits are fine, `allowed` and `suppressed` leave no token
};

struct step_result {
  std::uint64_t step = 0;
  std::vector<slice_result> slices;  ///< same order as the batch
  std::uint64_t elapsed_us = 0;
};

}  // namespace troupe::gpu
