// Limits of a request's fields that hold wherever requests come from: the wire, a file of prompts.
// Values only.
#pragma once
#include <cstddef>

namespace troupe {

/// Longest `cache_salt`.
inline constexpr std::size_t cache_salt_bytes_max = 256;

}  // namespace troupe
