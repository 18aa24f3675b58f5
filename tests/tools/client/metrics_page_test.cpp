#include "tools/client/metrics_page.hpp"

#include <catch2/catch.hpp>

using namespace troupe::api_client;

namespace {

const metrics_page page{R"(# HELP running Requests
# TYPE running gauge
running 3
released_total{reason="stop"} 10
released_total{reason="client, gone} or so"} 2.5
calls 1e3
per_call 0.5
step_count 10
step_bucket{le="0.1"} 4
step_bucket{le="0.2"} 9
step_bucket{le="+Inf"} 10
idle_bucket{le="+Inf"} 0
)"};

}  // namespace

TEST_CASE(
    "metrics_page: a value is the sum over its labels, and a product where two names are given") {
  REQUIRE(page.value("running") == 3.0);
  REQUIRE(page.value("released_total") == 12.5);
  REQUIRE(page.value("calls*per_call") == 500.0);
}

TEST_CASE("metrics_page: what is not on the page has no value, and does not count as zero") {
  REQUIRE_FALSE(page.value("runnin"));
  REQUIRE_FALSE(page.value(""));
  REQUIRE_FALSE(page.value("calls*nothing"));
}

TEST_CASE("metrics_page: a quantile is the upper bound of its bucket") {
  REQUIRE(page.quantile_bound("step", 0.4) == 0.1);
  REQUIRE(page.quantile_bound("step", 0.41) == 0.2);
  REQUIRE(page.quantile_bound("step", 0.9) == 0.2);
  REQUIRE_FALSE(page.quantile_bound("idle", 0.5));
  REQUIRE_FALSE(page.quantile_bound("none", 0.5));
}

TEST_CASE("metrics_page: the largest observation since an earlier page is found by its bucket") {
  const auto with = [](int a, int b, int c) {
    return metrics_page{"s_bucket{le=\"1\"} " + std::to_string(a) + "\ns_bucket{le=\"2\"} " +
                        std::to_string(b) + "\ns_bucket{le=\"+Inf\"} " + std::to_string(c) + "\n"};
  };
  REQUIRE(with(5, 7, 7).largest_since(with(4, 6, 6), "s") == 1.0);
  REQUIRE(with(5, 8, 8).largest_since(with(4, 6, 6), "s") == 2.0);
  REQUIRE_FALSE(with(5, 7, 7).largest_since(with(5, 7, 7), "s"));
  REQUIRE_FALSE(with(5, 7, 7).largest_since(with(5, 7, 7), "t"));
}
