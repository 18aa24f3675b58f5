#include "config/bytes/checksum.hpp"

#include <cstring>
#include <utility>

namespace troupe {
namespace {

constexpr std::size_t lanes = 8;  ///< sums side by side: they hide the multiplication's latency
constexpr std::size_t line_bytes = lanes * sizeof(std::uint64_t);
// Odd, so that multiplying is a bijection; bits drawn at random.
constexpr std::uint64_t first_factor = 0xd6e8b5a94f2c9a37u, second_factor = 0x9c1f6ed3b70a5e4bu;

/// For each value of one argument a bijection of the other. The shift brings high bits down: a
/// product only ever carries a change upwards, so a flipped top bit would stay alone in its lane,
/// and one more flip would undo it (a rotation in its place was undone by one certain bit).
std::uint64_t fold(std::uint64_t sum, const std::byte* word_bytes) {
  std::uint64_t word;
  std::memcpy(&word, word_bytes, sizeof word);
  const std::uint64_t product = (sum ^ word) * first_factor;
  return product ^ product >> 32;
}

/// Written out, not a loop: as one it is made into vector code, where a 64-bit product costs three
/// times as much.
template <std::size_t... lane>
void fold_line(std::uint64_t (&sums)[lanes], const std::byte* line, std::index_sequence<lane...>) {
  ((sums[lane] = fold(sums[lane], line + lane * sizeof(std::uint64_t))), ...);
}

std::uint64_t mixed(std::uint64_t value) {
  value = (value ^ value >> 32) * second_factor;
  value = (value ^ value >> 29) * first_factor;
  return value ^ value >> 32;
}

}  // namespace

std::uint64_t checksum64(std::span<const std::byte> bytes) {
  constexpr auto all = std::make_index_sequence<lanes>();
  std::uint64_t sums[lanes];
  for (std::size_t i = 0; i < lanes; ++i) sums[i] = (i + 1) * second_factor;
  std::size_t at = 0;
  for (; at + line_bytes <= bytes.size(); at += line_bytes) fold_line(sums, bytes.data() + at, all);
  if (at < bytes.size()) {
    std::byte rest[line_bytes] = {};
    std::memcpy(rest, bytes.data() + at, bytes.size() - at);
    fold_line(sums, rest, all);
  }
  std::uint64_t sum = mixed(bytes.size());  // so that a short tail and its zero padding differ
  for (const std::uint64_t lane : sums) sum = mixed(sum ^ lane);
  return sum;
}

std::uint64_t checksum64(const std::vector<std::uint64_t>& words) {
  return checksum64(std::as_bytes(std::span(words)));
}

}  // namespace troupe
