#include "actors/host_memory.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <stdexcept>

using namespace troupe;

TEST_CASE(
    "host_memory: a tier without room for a block, or beyond the memory there is, is refused by "
    "name",
    "[actor]") {
  using Catch::Matchers::Contains;
  CHECK_THROWS_WITH(host_memory(1000, 4096),
                    Contains("--kv-offloading-size: 1000 bytes") && Contains("needs 4096"));
  CHECK_THROWS_AS(host_memory(1ull << 44, 368640), std::invalid_argument);
  CHECK_THROWS_WITH(
      host_memory(1ull << 44, 368640),
      Contains("--kv-offloading-size: 17592186044416 bytes") && Contains("are available"));
  const host_memory some(10 * 64 + 63, 64);
  CHECK(some.slots() == 10);
  CHECK(some.slot(9).size() == 64);
  CHECK(some.slot(9).data() == some.slot(0).data() + 9 * 64);
  CHECK(std::ranges::all_of(some.slot(9), [](std::byte b) { return b == std::byte{0}; }));
}
