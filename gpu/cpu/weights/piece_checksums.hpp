// Checksums (config/bytes/checksum.hpp) of much memory at once, cut into pieces for the threads.
// The same for every thread count, since the cuts depend on the lengths alone. Owns nothing.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpu/cpu/threads/worker_pool.hpp"

namespace troupe::gpu {

/// What one thread sums at a time: big enough to be worth a claim, small enough to stay in its
/// cache.
inline constexpr std::size_t checksum_piece_bytes = std::size_t{1} << 20;

/// One checksum for each piece of each span, in order; the last piece of a span may be shorter.
std::vector<std::uint64_t> piece_checksums(const std::vector<std::span<const std::byte>>& spans,
                                           worker_pool& pool);

}  // namespace troupe::gpu
