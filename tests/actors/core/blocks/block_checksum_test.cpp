#include "actors/core/blocks/block_checksum.hpp"

#include <catch2/catch.hpp>
#include <random>
#include <set>
#include <vector>

using namespace troupe::core;

namespace {

std::vector<std::byte> random_bytes(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> bytes(count);
  for (auto& b : bytes) b = static_cast<std::byte>(random());
  return bytes;
}

void flip(std::vector<std::byte>& bytes, std::size_t bit) {
  bytes[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
}

}  // namespace

TEST_CASE("block_checksum: every single flipped bit is found, in blocks of any length", "[core]") {
  for (const std::size_t count : {1, 7, 8, 63, 64, 65, 200, 1024}) {
    auto bytes = random_bytes(count, count);
    const auto sound = block_checksum(bytes);
    CHECK(block_checksum(bytes) == sound);
    std::size_t missed = 0;
    for (std::size_t bit = 0; bit < count * 8; ++bit) {
      flip(bytes, bit);
      missed += block_checksum(bytes) == sound;
      flip(bytes, bit);
    }
    CHECK(missed == 0);
  }
}

TEST_CASE("block_checksum: two flipped bits are found wherever they are", "[core]") {
  auto bytes = random_bytes(192, 5);  // three words in each lane
  const auto sound = block_checksum(bytes);
  std::size_t missed = 0;
  for (std::size_t a = 0; a < bytes.size() * 8; ++a) {
    flip(bytes, a);
    for (std::size_t b = a + 1; b < bytes.size() * 8; ++b) {
      flip(bytes, b);
      missed += block_checksum(bytes) == sound;
      flip(bytes, b);
    }
    flip(bytes, a);
  }
  CHECK(missed == 0);
}

TEST_CASE("block_checksum: length, zeros and the order of words matter", "[core]") {
  std::set<std::uint64_t> seen;
  for (std::size_t count = 0; count <= 300; ++count)
    seen.insert(block_checksum(std::vector<std::byte>(count)));
  CHECK(seen.size() == 301);

  auto bytes = random_bytes(256, 9);
  const auto sound = block_checksum(bytes);
  for (const std::size_t apart : {8, 64, 128}) {  // other lane, same lane
    auto swapped = bytes;
    std::swap_ranges(swapped.begin(), swapped.begin() + 8,
                     swapped.begin() + static_cast<std::ptrdiff_t>(apart));
    CHECK(block_checksum(swapped) != sound);
  }
}
