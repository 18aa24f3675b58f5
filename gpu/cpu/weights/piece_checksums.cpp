#include "gpu/cpu/weights/piece_checksums.hpp"

#include <algorithm>

#include "config/bytes/checksum.hpp"

namespace troupe::gpu {

std::vector<std::uint64_t> piece_checksums(const std::vector<std::span<const std::byte>>& spans,
                                           worker_pool& pool) {
  std::vector<std::span<const std::byte>> pieces;
  for (const auto& span : spans) {
    for (std::size_t at = 0; at < span.size(); at += checksum_piece_bytes) {
      pieces.push_back(span.subspan(at, std::min(checksum_piece_bytes, span.size() - at)));
    }
  }
  std::vector<std::uint64_t> sums(pieces.size());
  pool.run(static_cast<std::uint32_t>(pieces.size()),
           [&](std::uint32_t i) { sums[i] = checksum64(pieces[i]); });
  return sums;
}

}  // namespace troupe::gpu
