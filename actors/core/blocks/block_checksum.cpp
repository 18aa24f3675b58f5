#include "actors/core/blocks/block_checksum.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace troupe::core {
namespace {

constexpr std::size_t lanes = 8;  // enough to hide the latency of the multiplication
constexpr std::uint64_t factor = 0x9e3779b97f4a7c15ull;

/// For each value of one argument a bijection of the other, so that a changed word always changes
/// its lane. The shift brings high bits down: a flipped top bit would pass the multiplication
/// alone, and one flipped bit could undo it later.
std::uint64_t fold(std::uint64_t state, std::uint64_t word) {
  const std::uint64_t product = (state ^ word) * factor;
  return product ^ product >> 32;
}

std::uint64_t word_at(const std::byte* line, std::size_t index) {
  std::uint64_t word;
  std::memcpy(&word, line + index * sizeof word, sizeof word);
  return word;
}

/// Written out, not a loop: as one it is made into vector code, where a 64-bit product costs three
/// times as much.
template <std::size_t... lane>
void fold_line(std::uint64_t (&state)[lanes], const std::byte* line, std::index_sequence<lane...>) {
  ((state[lane] = fold(state[lane], word_at(line, lane))), ...);
}

}  // namespace

std::uint64_t block_checksum(std::span<const std::byte> bytes) {
  constexpr std::size_t line = lanes * sizeof(std::uint64_t);
  constexpr auto all = std::make_index_sequence<lanes>();
  std::uint64_t state[lanes];
  for (std::size_t i = 0; i < lanes; ++i) state[i] = factor * (i + 1);
  const std::size_t whole = bytes.size() / line * line;
  for (std::size_t at = 0; at < whole; at += line) fold_line(state, bytes.data() + at, all);
  if (whole < bytes.size()) {
    std::byte last[line] = {};
    std::copy(bytes.begin() + static_cast<std::ptrdiff_t>(whole), bytes.end(), last);
    fold_line(state, last, all);
  }
  std::uint64_t sum = bytes.size();  // tells a short tail from its zero padding
  for (const std::uint64_t lane : state) sum = fold(sum, lane);
  return sum;
}

}  // namespace troupe::core
