#include "config/bytes/checksum.hpp"

#include <catch2/catch.hpp>
#include <random>
#include <set>
#include <vector>

using namespace troupe;

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

TEST_CASE("checksum64: every single flipped bit is found, in blocks of any length", "[config]") {
  for (const std::size_t count : {1, 7, 8, 63, 64, 65, 200, 1024}) {
    auto bytes = random_bytes(count, count);
    const auto sound = checksum64(bytes);
    CHECK(checksum64(bytes) == sound);
    std::size_t missed = 0;
    for (std::size_t bit = 0; bit < count * 8; ++bit) {
      flip(bytes, bit);
      missed += checksum64(bytes) == sound;
      flip(bytes, bit);
    }
    CHECK(missed == 0);
  }
}

TEST_CASE("checksum64: two flipped bits are found wherever they are", "[config]") {
  auto bytes = random_bytes(192, 5);  // three words in each lane
  const auto sound = checksum64(bytes);
  std::size_t missed = 0;
  for (std::size_t a = 0; a < bytes.size() * 8; ++a) {
    flip(bytes, a);
    for (std::size_t b = a + 1; b < bytes.size() * 8; ++b) {
      flip(bytes, b);
      missed += checksum64(bytes) == sound;
      flip(bytes, b);
    }
    flip(bytes, a);
  }
  CHECK(missed == 0);
}

TEST_CASE("checksum64: length, zeros and the order of words matter", "[config]") {
  std::set<std::uint64_t> seen;
  for (std::size_t count = 0; count <= 300; ++count)
    seen.insert(checksum64(std::vector<std::byte>(count)));
  CHECK(seen.size() == 301);

  auto bytes = random_bytes(256, 9);
  const auto sound = checksum64(bytes);
  for (const std::size_t apart : {8, 64, 128}) {  // other lane, same lane
    auto swapped = bytes;
    std::swap_ranges(swapped.begin(), swapped.begin() + 8,
                     swapped.begin() + static_cast<std::ptrdiff_t>(apart));
    CHECK(checksum64(swapped) != sound);
  }
}

TEST_CASE("checksum64: its values are those that files of panels were written with", "[config]") {
  std::vector<std::byte> bytes(300);
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i * 37);
  // Of format 2. Another value here needs another format number in panel_cache.cpp.
  for (const auto& [size, sum] :
       std::vector<std::pair<std::size_t, std::uint64_t>>{{0, 0x3adec201ed15bae1u},
                                                          {1, 0x31c6a2f965a67f16u},
                                                          {8, 0x737af3813c4742ccu},
                                                          {64, 0x16b5cf91b7257e54u},
                                                          {65, 0xebcfb97c8c5059deu},
                                                          {300, 0xddd08d9e102ff8cfu}}) {
    CHECK(checksum64(std::span<const std::byte>(bytes).first(size)) == sum);
  }
  const std::vector<std::uint64_t> words{1, 2, 3};
  CHECK(checksum64(words) == checksum64(std::as_bytes(std::span(words))));
}
