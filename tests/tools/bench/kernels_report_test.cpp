#include "tools/bench/kernels_report.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

namespace {

using namespace troupe;
using gpu::kernel_cost;
using gpu::kernel_kind;

/// One core: 300 G dots/s, 60 G floats/s, 20 GB/s; two: twice that. 100 MB of weights.
kernels_report sample_report() {
  kernels_report r;
  r.machine = "a machine";
  r.isa = "avx512-vnni";
  r.weight_bytes = 100'000'000;
  r.large_bytes = 1'000'000'000;
  r.peaks = {{1, {300e9, 60e9, 20e9}, 10e9, 0.010, 0.012},
             {2, {600e9, 120e9, 40e9}, 20e9, 0.004, 0.005}};
  // 64 rows: 30 calls of 10 M multiply-adds each in 2 ms: 150 G/s
  r.matmuls = {
      {kernel_kind::qkv, "qkv 960x576", "1 row", 1, 1, {30, 1'000'000, 15'000'000, 0, 10'000'000}},
      {kernel_kind::qkv,
       "qkv 960x576",
       "64 rows",
       64,
       1,
       {30, 2'000'000, 300'000'000, 0, 10'000'000}},
      {kernel_kind::qkv, "qkv 960x576", "1 row", 1, 2, {30, 500'000, 15'000'000, 0, 10'000'000}},
      {kernel_kind::qkv,
       "qkv 960x576",
       "64 rows",
       64,
       2,
       {30, 2'500'000, 300'000'000, 0, 10'000'000}},
      {kernel_kind::head,
       "head 49152x576",
       "64 rows",
       64,
       1,
       {2, 2'000'000, 240'000'000, 0, 10'000'000}},
      {kernel_kind::head,
       "head 49152x576",
       "64 rows",
       64,
       2,
       {2, 1'500'000, 240'000'000, 0, 10'000'000}}};
  r.others = {{kernel_kind::norm, "norm", "8 rows", 8, 1, {60, 60'000, 0, 1'000'000, 4'000'000}},
              {kernel_kind::norm, "norm", "8 rows", 8, 2, {60, 60'000, 0, 1'000'000, 4'000'000}}};
  return r;
}

const floor_check& named(const std::vector<floor_check>& floors, const std::string& part) {
  for (const auto& f : floors) {
    if (f.what.find(part) != std::string::npos) return f;
  }
  throw std::runtime_error("no floor with " + part);
}

TEST_CASE(
    "kernels report: the floors are the core's peak, all matrices at 64 rows and the weights read "
    "in a step") {
  const auto floors = floors_of(sample_report());
  REQUIRE(floors.size() == 4);
  CHECK(named(floors, "one core").value == Approx(300));
  CHECK(named(floors, "one core").holds());
  const auto& one = named(floors, "64 rows, 1 thread");  // 540 M in 4 ms: 135 of 300 G/s
  CHECK(one.value == Approx(45));
  CHECK(one.holds());
  const auto& both = named(floors, "64 rows, 2 thread");  // 540 M in 4 ms: 135 of 600 G/s
  CHECK(both.value == Approx(22.5));
  CHECK_FALSE(both.holds());
  const auto& step = named(floors, "weights read");  // 100 MB in 4 ms: 25 of 40 GB/s
  CHECK(step.value == Approx(62.5));
  CHECK_FALSE(step.holds());
}

TEST_CASE(
    "kernels report: a slower instruction set is held to its own peak, not to the fastest one's") {
  auto report = sample_report();
  report.isa = "portable";
  CHECK(floors_of(report).size() == 3);
}

TEST_CASE(
    "kernels report: JSON has peaks, each figure with its share of the limit, sums and floors") {
  const auto json = to_json(sample_report());
  CHECK(json["peaks"][1]["threads"] == 2);
  CHECK(json["peaks"][1]["read_weights_gb_per_s"] == 40.0);
  CHECK(json["peaks"][0]["decode_step_median_ms"] == 12.0);
  const auto& row = json["matrices"][0];
  CHECK(row["name"] == "qkv 960x576");
  CHECK(row["rows"] == 1);
  CHECK(row["us_per_call"] == 33.333);
  CHECK(row["g_ops_per_s"] == 15.0);
  CHECK(row["gb_per_s"] == 10.0);
  CHECK(row["share_of_limit"] == 0.5);
  CHECK(row["limit"] == "reading");
  CHECK(json["matrices"][1]["share_of_limit"] == 0.5);  // 1 ms of arithmetic in 2 ms
  CHECK(json["matrices"][1]["limit"] == "arithmetic");
  CHECK(json["all_matrices"].size() == 4);  // 1 and 64 rows, on one and two threads
  CHECK(json["all_matrices"][2]["us"] == 4000.0);
  CHECK_FALSE(json["others"][0].contains("share_of_limit"));
  CHECK(json["floors"].size() == 4);
  CHECK(json["floors"][3]["holds"] == false);
}

TEST_CASE(
    "kernels report: words have a line for each setting, with both thread counts side by side") {
  const auto words = to_words(sample_report());
  CHECK_THAT(
      words,
      Catch::Contains(
          "qkv 960x576          1 row                        |      33.3     15.0   10.0    50 % r "
          "|      16.7     30.0   20.0    50 % r\n"));
  CHECK_THAT(words, Catch::Contains("reading the weights again and again (100 MB)"));
  CHECK_THAT(words,
             Catch::Contains("ok    8-bit multiply-adds of one core: 300.0 G/s (floor 200)\n"));
  CHECK_THAT(
      words,
      Catch::Contains(
          "BELOW weights read in a step of one sequence, 2 thread(s), of the reading peak: 62.5 % "
          "(floor 65)\n"));
}

TEST_CASE("kernels report: figures need the peaks of their number of threads") {
  CHECK_THROWS_WITH(sample_report().limits_of(3), "no peaks were measured with 3 threads");
}

}  // namespace
