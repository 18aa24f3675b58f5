// The one 64-bit checksum of the tree: of KV blocks that come back from the host tier and of the
// file of repacked weights. It says whether bytes are still the same, against decay, mix-ups and
// our own mistakes, not against forgery. Bound by memory speed. The file's format rests on its
// values: they never change without a new format number there. Owns nothing.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace troupe {

/// Every step is a bijection, so a change within one word of 8 bytes always changes the sum; any
/// other goes unseen once in 2^64.
std::uint64_t checksum64(std::span<const std::byte> bytes);
/// Of the words' bytes, as they lie in memory.
std::uint64_t checksum64(const std::vector<std::uint64_t>& words);

}  // namespace troupe
