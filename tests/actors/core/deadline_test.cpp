#include "actors/core/deadline.hpp"

#include <catch2/catch.hpp>

using namespace troupe::core;

TEST_CASE("deadline: milliseconds from now, 0 and what the clock can't say are never", "[core]") {
  CHECK(due(5, 1000) == 6000);
  CHECK(due(0, 1000) == never);
  CHECK(due(~std::uint64_t{0}, 1000) == never);
  const auto most = static_cast<std::uint64_t>(never - 7) / 1000;
  CHECK(due(most, 7) != never);
  CHECK(due(most + 1, 7) == never);
}

TEST_CASE("deadline: a request's own go before the configured ones, each by itself", "[core]") {
  CHECK(with_defaults({1, 0, 3}, {4, 5, 6}) == deadlines_ms{1, 5, 3});
  CHECK(with_defaults({}, {4, 0, 6}) == deadlines_ms{4, 0, 6});
}
