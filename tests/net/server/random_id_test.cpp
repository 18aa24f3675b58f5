#include "net/server/random_id.hpp"

#include <catch2/catch.hpp>

using namespace troupe;
using namespace troupe::net;

TEST_CASE("random_id: ids differ and are long", "[net]") {
  CHECK(random_id("x_").size() == 34);
  CHECK(random_id("x_") != random_id("x_"));
}
