// Which tokens a step may draw: what a constraint answers for one position and the sampler applies.
// Shared with the request that it came from, so a mask that does not change costs a step nothing.
#pragma once
#include <cstdint>
#include <vector>

#include "config/sampling_params.hpp"
#include "config/shared_sequence.hpp"

namespace troupe {

/// One bit per token of the vocabulary, token 0 in the lowest bit of the first word.
using token_bits = shared_sequence<std::uint64_t>;

struct token_mask {
  token_bits allowed;               ///< empty: all; tokens behind its last word are not allowed
  std::vector<token_id> forbidden;  ///< not allowed, whatever `allowed` says
  bool operator==(const token_mask&) const = default;

  bool allows(token_id token) const {
    for (const auto no : forbidden)
      if (no == token) return false;
    const auto at = static_cast<std::size_t>(token);
    return allowed.empty() ||
           (at / 64 < allowed.size() && (allowed[at / 64] >> (at % 64) & 1) != 0);
  }
};

}  // namespace troupe
