#include "actors/core/scheduler_limits.hpp"

#include <algorithm>

namespace troupe::core {

std::uint64_t scheduler_limits::pool_tokens() const {
  return std::uint64_t{num_blocks - std::min(num_blocks, lost_blocks)} * block_size;
}

std::uint32_t scheduler_limits::effective_context() const {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(model_context, pool_tokens()));
}

// The next token stands at position `computed` and looks at window - 1 tokens before it.
std::uint32_t scheduler_limits::rows_behind_window(std::uint32_t group,
                                                   std::uint32_t computed) const {
  const auto window = windows.at(group);
  if (window == 0 || computed < window) return 0;
  return (computed - window + 1) / block_size;
}

}  // namespace troupe::core
