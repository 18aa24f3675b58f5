#include "config/bytes/mix64.hpp"

#include <catch2/catch.hpp>

using namespace troupe;

TEST_CASE("mix64: it is SplitMix64's output step", "[config]") {
  // The first numbers of SplitMix64 from seed 0, as its authors' own program prints them.
  std::uint64_t state = 0;
  const auto next = [&] { return mix64(state += golden_step); };
  CHECK(next() == 0xe220a8397b1dcdafu);
  CHECK(next() == 0x6e789e6aa1b965f4u);
  CHECK(next() == 0x06c45d188009454fu);
}
