// The limits a scheduler works under, from configuration, model and device. A value; only
// lost_blocks changes while it runs.
#pragma once
#include <cstdint>
#include <vector>

#include "actors/api/generation.hpp"

namespace troupe::core {

struct scheduler_limits {
  std::uint32_t max_num_seqs = 32;  ///< no more than max_num_batched_tokens count
  std::uint32_t max_num_batched_tokens = 512;
  std::uint64_t max_step_us = 100'000;
  std::uint32_t max_num_queued_reqs = 64;
  std::uint32_t block_size = 16;
  std::uint32_t num_blocks = 0;   ///< of each layer group
  std::uint32_t lost_blocks = 0;  ///< blocks of the pool in quarantine
  /// One per layer group: how many tokens its layers look back over, the token itself included; 0:
  /// over all of them.
  std::vector<std::uint32_t> windows = {0};
  std::uint32_t model_context = 0;   ///< smallest of the model's and --max-model-len, in tokens
  std::vector<token_id> end_tokens;  ///< sorted
  std::uint32_t vocab = 0;           ///< 0: not checked
  deadlines_ms deadlines;            ///< defaults; 0 = none
  bool prefix_caching = true;
  bool park = false;  ///< preempted requests go to the host tier; else they are recomputed
  std::uint32_t move_chunk_blocks = 32;     ///< blocks copied by one move
  std::uint64_t move_limit_us = 2'000'000;  ///< a move that takes longer is abandoned
  /// A reader that is behind for longer ends its request; 0: never.
  std::uint64_t stall_limit_us = 30'000'000;

  /// The smaller of model_context and the pool in tokens, without lost blocks.
  std::uint32_t effective_context() const;
  std::uint32_t groups() const { return static_cast<std::uint32_t>(windows.size()); }
  /// The leading rows that no layer of the group looks at any more when that many tokens are
  /// computed. The row of the next token is never one of them.
  std::uint32_t rows_behind_window(std::uint32_t group, std::uint32_t computed) const;
  std::uint64_t pool_tokens() const;
  bool operator==(const scheduler_limits&) const = default;
};

}  // namespace troupe::core
