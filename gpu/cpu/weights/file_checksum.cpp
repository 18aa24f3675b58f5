#include "gpu/cpu/weights/file_checksum.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace troupe::gpu {

namespace {

constexpr std::size_t lanes = 8;  ///< hide the latency of the multiplication
constexpr std::size_t line_bytes = lanes * 8;
// Odd, so that multiplying is a bijection; bits drawn at random.
constexpr std::uint64_t stir = 0xd6e8b5a94f2c9a37u, settle = 0x9c1f6ed3b70a5e4bu;

void add_line(std::uint64_t (&lane)[lanes], const std::byte* line) {
  for (std::size_t i = 0; i < lanes; ++i) {
    std::uint64_t word;
    std::memcpy(&word, line + i * 8, 8);
    lane[i] = std::rotl(lane[i] ^ word, 29) * stir;
  }
}

std::uint64_t mixed(std::uint64_t value) {
  value = (value ^ value >> 32) * settle;
  value = (value ^ value >> 29) * stir;
  return value ^ value >> 32;
}

}  // namespace

std::uint64_t content_sum(std::span<const std::byte> bytes) {
  std::uint64_t lane[lanes];
  for (std::size_t i = 0; i < lanes; ++i) lane[i] = (i + 1) * settle;
  std::size_t at = 0;
  for (; at + line_bytes <= bytes.size(); at += line_bytes) add_line(lane, bytes.data() + at);
  if (at < bytes.size()) {
    std::byte rest[line_bytes] = {};
    std::memcpy(rest, bytes.data() + at, bytes.size() - at);
    add_line(lane, rest);
  }
  std::uint64_t sum = mixed(bytes.size());  // the zeros behind a rest count as well as real ones
  for (const std::uint64_t l : lane) sum = mixed(sum ^ l);
  return sum;
}

std::uint64_t content_sum(const std::vector<std::uint64_t>& words) {
  return content_sum(std::as_bytes(std::span(words)));
}

std::vector<std::uint64_t> piece_sums(const std::vector<std::span<const std::byte>>& spans,
                                      worker_pool& pool) {
  std::vector<std::span<const std::byte>> pieces;
  for (const auto& span : spans) {
    for (std::size_t at = 0; at < span.size(); at += sum_piece_bytes) {
      pieces.push_back(span.subspan(at, std::min(sum_piece_bytes, span.size() - at)));
    }
  }
  std::vector<std::uint64_t> sums(pieces.size());
  pool.run(static_cast<std::uint32_t>(pieces.size()),
           [&](std::uint32_t i) { sums[i] = content_sum(pieces[i]); });
  return sums;
}

}  // namespace troupe::gpu
