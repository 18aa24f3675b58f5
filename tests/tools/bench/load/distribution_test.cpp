#include "tools/bench/load/distribution.hpp"

#include <catch2/catch.hpp>

namespace {

using troupe::distribution_of;

TEST_CASE("distribution: percentiles are measured values, by nearest rank") {
  std::vector<double> values;
  for (int i = 100; i >= 1; --i) values.push_back(i);
  const auto d = distribution_of(values);
  CHECK(d.count == 100);
  CHECK(d.mean == 50.5);
  CHECK(d.p50 == 50);
  CHECK(d.p95 == 95);
  CHECK(d.p99 == 99);
  CHECK(d.max == 100);
}

TEST_CASE("distribution: few values, one value and none") {
  const auto three = distribution_of({3, 1, 2});
  CHECK(three.p50 == 2);
  CHECK(three.p95 == 3);
  CHECK(distribution_of({7}).p50 == 7);
  CHECK(distribution_of({7}).p99 == 7);
  const auto none = distribution_of({});
  CHECK(none.count == 0);
  CHECK(none.max == 0);
}

}  // namespace
