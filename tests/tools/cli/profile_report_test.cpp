#include "tools/cli/profile_report.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

namespace {

using namespace troupe;
using gpu::kernel_kind;

gpu::device_profile profile_of_two_steps() {
  gpu::device_profile p;
  p.on = true;
  p.steps = 2;
  p.rows = 10;
  p.limits = {100e9, 50e9, 10e9};
  p[kernel_kind::qkv] = {4, 3'000'000, 60'000'000, 0, 15'000'000};  // 1.5 ms to read them
  p[kernel_kind::sampler] = {2, 1'000'000, 0, 100'000, 400'000};
  p.step_nanoseconds = 4'000'000;
  p.idle_nanoseconds = 2'000'000;
  return p;
}

TEST_CASE(
    "profile report: words name each kind that ran, with its share of the time and of the "
    "machine's limit") {
  const auto words = profile_words(profile_of_two_steps());
  CHECK_THAT(
      words,
      Catch::StartsWith(
          "profile: 2 steps with 10 tokens, 0.004 s on the device, 0.002 s between steps\n"));
  const auto line = words.substr(words.find("\n  qkv"), 120);
  // 3 ms in all, 75 % of the steps, 1,500 us and 7.5 MB and 30 M operations a step, 5 GB/s, 20 G
  // op/s, half of the limit
  CHECK_THAT(
      line, Catch::Matches(
                "\\n  qkv +3\\.0 +75\\.0 +1500\\.0 +7\\.50 +30\\.00 +5\\.0 +20\\.00 +50 %\\n[^]*"));
  CHECK_THAT(words, Catch::Contains("\n  sampler"));
  CHECK_THAT(words, !Catch::Contains("attention"));
  CHECK_THAT(words,
             Catch::Contains("100.0 G/s 8-bit and 50.0 G/s 32-bit multiply-adds, 10.0 GB/s read"));
}

TEST_CASE("profile report: JSON has the same figures, and fits into one write to a pipe") {
  auto p = profile_of_two_steps();
  const auto json = profile_json(p);
  CHECK(json["steps"] == 2);
  CHECK(json["tokens"] == 10);
  CHECK(json["device_ms"] == 4.0);
  CHECK(json["between_steps_ms"] == 2.0);
  CHECK(json["limits"]["read_gb_per_s"] == 10.0);
  const auto& qkv = json["kernels"]["qkv"];
  CHECK(qkv["ms"] == 3.0);
  CHECK(qkv["us_per_step"] == 1500.0);
  CHECK(qkv["calls"] == 4);
  CHECK(qkv["bytes"] == 15'000'000);
  CHECK(qkv["ops"] == 60'000'000);
  CHECK(qkv["share_of_limit"] == 0.5);
  CHECK_FALSE(json["kernels"]["sampler"].contains("share_of_limit"));
  CHECK_FALSE(json["kernels"].contains("attention"));
  for (auto& cost : p.kernels) cost = {1ull << 50, 1ull << 62, 1ull << 62, 1ull << 62, 1ull << 62};
  CHECK(profile_json(p).dump().size() < 4000);
}

TEST_CASE("profile report: a device that ran nothing, or keeps no profile, says so") {
  CHECK(profile_words({}) == "profile: no step ran\n");
  CHECK(profile_json({})["kernels"].empty());
}

}  // namespace
