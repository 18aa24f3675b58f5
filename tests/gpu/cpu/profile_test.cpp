#include <catch2/catch.hpp>
#include <chrono>

#include "gpu/cpu/step_profile.hpp"
#include "tests/gpu/cpu/device_rig.hpp"

namespace {

using namespace troupe;
using namespace troupe::gpu;
using namespace troupe::test;

const std::vector<token_id> tokens_a{5, 17, 99, 140, 3, 60}, tokens_b{8, 9, 10};

/// A prompt of 5 tokens; then its next token beside 3 tokens of another prompt, which samples none.
std::vector<step_result> run_two_steps(backend& device) {
  std::vector<step_result> results;
  step_batch first;
  first.slices.push_back(slice_of(1, tokens_a, 0, 5, {0}));
  first.slices.back().sample = true;
  results.push_back(run_step(device, first));
  step_batch second;
  second.slices.push_back(slice_of(1, tokens_a, 5, 1, {0}));
  second.slices.back().sample = true;
  second.slices.push_back(slice_of(2, tokens_b, 0, 3, {1}));
  results.push_back(run_step(device, second));
  return results;
}

backend_options profiled(std::uint32_t threads) {
  backend_options options = device_options(threads, 4);
  options.profile = true;
  return options;
}

/// What was counted, without the time.
kernel_cost counted(const device_profile& p, kernel_kind kind) {
  kernel_cost cost = p[kind];
  cost.nanoseconds = 0;
  return cost;
}

// The model: 2 layers, width 64, 4 heads and 2 KV heads of 16, feed-forward 96, 270 tokens. The
// steps: 5 + 4 rows, 1 + 1 rows of logits, (1 + 2 + 3 + 4 + 5) + 6 + (1 + 2 + 3) tokens seen.
TEST_CASE("step profile: operations and bytes of a tiny model are those computed by hand") {
  const std::uint32_t threads = GENERATE(1u, 3u);
  cpu_backend device(load_tiny({.type = 3}), profiled(threads));  // Q4_1: 5 bits a weight
  run_two_steps(device);
  const device_profile p = device.profile();
  CHECK(p.on);
  CHECK(p.steps == 2);
  CHECK(p.rows == 9);
  using enum kernel_kind;
  CHECK(counted(p, embedding) == kernel_cost{.calls = 2, .floats = 9 * 64, .bytes = 9 * 64 * 4});
  CHECK(counted(p, norm) ==
        kernel_cost{.calls = 10, .floats = (9 * 4 + 2) * 64, .bytes = (9 * 4 + 2) * 64 * 4});
  CHECK(counted(p, qkv) ==
        kernel_cost{.calls = 4, .dots = 9 * 2 * 128 * 64, .bytes = 4 * 128 * 64 * 5 / 8});
  CHECK(counted(p, rope_store) ==
        kernel_cost{.calls = 4, .floats = 9 * 2 * 6 * 16, .bytes = 9 * 2 * 128});
  CHECK(counted(p, attention) ==
        kernel_cost{.calls = 4, .floats = 2 * 27 * 2 * 64, .bytes = 2 * (5 + 6 + 3) * 128});
  CHECK(counted(p, quantize) ==
        kernel_cost{.calls = 4, .floats = 9 * 2 * 64, .bytes = 9 * 2 * 64 * 4});
  CHECK(counted(p, o) ==
        kernel_cost{.calls = 4, .dots = 9 * 2 * 64 * 64, .bytes = 4 * 64 * 64 * 5 / 8});
  CHECK(counted(p, gate_up) ==
        kernel_cost{.calls = 4, .dots = 9 * 2 * 192 * 64, .bytes = 4 * 192 * 64 * 5 / 8});
  CHECK(counted(p, down) ==
        kernel_cost{.calls = 4, .dots = 9 * 2 * 64 * 96, .bytes = 4 * 64 * 96 * 5 / 8});
  const std::uint64_t padded = (270 + panel_rows - 1) / panel_rows * panel_rows;
  CHECK(counted(p, head) ==
        kernel_cost{.calls = 2, .dots = 2 * 270 * 64, .bytes = 2 * padded * 64 * 5 / 8});
  CHECK(counted(p, sampler) == kernel_cost{.calls = 2, .floats = 2 * 270, .bytes = 2 * 270 * 4});
  CHECK(counted(p, other) == kernel_cost{});
}

TEST_CASE(
    "step profile: products with 16-bit weights count as operations on floats, and nothing is "
    "quantized") {
  cpu_backend device(load_tiny({.type = 1}), profiled(1));
  run_two_steps(device);
  const device_profile p = device.profile();
  CHECK(counted(p, kernel_kind::o) ==
        kernel_cost{.calls = 4, .floats = 9 * 2 * 64 * 64, .bytes = 4 * 64 * 64 * 2});
  CHECK(counted(p, kernel_kind::quantize) == kernel_cost{});
}

TEST_CASE(
    "step profile: the kernels' times add up to the steps, which fit into the time that passed") {
  cpu_backend device(load_tiny({.type = 3}), profiled(2));
  const auto begin = std::chrono::steady_clock::now();
  const auto results = run_two_steps(device);
  const std::chrono::nanoseconds passed = std::chrono::steady_clock::now() - begin;
  const device_profile p = device.profile();
  std::uint64_t sum = 0;
  for (const kernel_cost& cost : p.kernels) sum += cost.nanoseconds;
  CHECK(p.step_nanoseconds == sum);
  CHECK(p.idle_nanoseconds > 0);
  CHECK(p.step_nanoseconds + p.idle_nanoseconds <= static_cast<std::uint64_t>(passed.count()));
  std::uint64_t told_us = 0;
  for (const step_result& result : results) told_us += result.elapsed_us + 1;
  CHECK(p.step_nanoseconds <= told_us * 1000);
  for (const auto kind :
       {kernel_kind::qkv, kernel_kind::attention, kernel_kind::head, kernel_kind::sampler})
    CHECK(p[kind].nanoseconds > 0);
}

TEST_CASE("step profile: a device that was not asked keeps none, and computes the same") {
  const auto model = load_tiny({.type = 3});
  cpu_backend plain(model, device_options(1, 4)), watched(model, profiled(1));
  const auto a = run_two_steps(plain), b = run_two_steps(watched);
  const device_profile p = plain.profile();
  CHECK_FALSE(p.on);
  CHECK(p.steps == 0);
  CHECK(p.step_nanoseconds == 0);
  CHECK(p.idle_nanoseconds == 0);
  CHECK(p.limits.dots_per_s == 0);
  for (const kernel_cost& cost : p.kernels) CHECK(cost == kernel_cost{});
  for (std::size_t i = 0; i < a.size(); ++i)
    CHECK(a[i].slices[0].sampled->token == b[i].slices[0].sampled->token);
}

TEST_CASE(
    "step profile: the machine's limits are measured at the start, in the device's instruction "
    "set") {
  const auto model = load_tiny({.type = 3});
  for (const kernel_table* kernels : supported_kernels()) {
    INFO("isa " << kernels->isa);
    backend_options options = profiled(1);
    options.own["isa"] = kernels->isa;
    const machine_limits limits = cpu_backend(model, options).profile().limits;
    CHECK(limits.dots_per_s > 1e8);
    CHECK(limits.floats_per_s > 1e7);
    CHECK(limits.bytes_per_s > 1e7);
  }
}

TEST_CASE("step profile: laps are kept in order when they are asked for") {
  step_profile profile({});
  std::vector<kernel_lap> laps;
  profile.keep_laps(laps);
  profile.begin_step();
  profile.lap(kernel_kind::norm, {.calls = 1, .bytes = 7});
  profile.lap(kernel_kind::o, {.calls = 1, .dots = 3});
  profile.end_step(1);
  REQUIRE(laps.size() == 3);
  CHECK(laps[0].kind == kernel_kind::norm);
  CHECK(laps[0].cost.bytes == 7);
  CHECK(laps[1].kind == kernel_kind::o);
  CHECK(laps[2].kind == kernel_kind::other);
  std::uint64_t sum = 0;
  for (const kernel_lap& lap : laps) sum += lap.cost.nanoseconds;
  CHECK(profile.read().step_nanoseconds == sum);
}

TEST_CASE("least seconds: arithmetic and reading at their limits, whichever takes longer") {
  const machine_limits limits{100, 10, 50};
  CHECK(least_seconds({.dots = 200, .bytes = 50}, limits) == Approx(2));
  CHECK(least_seconds({.dots = 200, .floats = 20, .bytes = 50}, limits) == Approx(4));
  CHECK(least_seconds({.dots = 200, .bytes = 500}, limits) == Approx(10));
  CHECK(least_seconds({.dots = 200}, {}) == 0);
}

}  // namespace
