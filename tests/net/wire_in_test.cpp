#include <catch2/catch.hpp>

#include "net/wire_in.hpp"

using namespace troupe;
TEST_CASE("placeholder") { CHECK(true); }
