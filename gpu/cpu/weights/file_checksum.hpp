// A 64-bit sum over bytes that says whether they are still the same: against damage and mix-ups,
// not against forgery. Bound by memory speed. Every step is a bijection, so a change within one
// word of 8 bytes always changes the sum; any other goes unseen once in 2^64. The sum is the same
// for every thread count. Owns nothing.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpu/cpu/threads/worker_pool.hpp"

namespace troupe::gpu {

/// What one thread sums at a time: big enough to be worth a claim, small enough to stay in its
/// cache.
inline constexpr std::size_t sum_piece_bytes = std::size_t{1} << 20;

std::uint64_t content_sum(std::span<const std::byte> bytes);
/// Of the words' bytes.
std::uint64_t content_sum(const std::vector<std::uint64_t>& words);
/// One sum for each piece of each span, in order; the last piece of a span may be shorter.
std::vector<std::uint64_t> piece_sums(const std::vector<std::span<const std::byte>>& spans,
                                      worker_pool& pool);

}  // namespace troupe::gpu
