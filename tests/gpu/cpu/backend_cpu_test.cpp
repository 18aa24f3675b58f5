// The device as its callers see it: construction, refusals, scoring, copies.
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <condition_variable>
#include <filesystem>
#include <limits>
#include <mutex>

#include "gpu/make_backend.hpp"
#include "tests/gpu/cpu/device_rig.hpp"

using namespace troupe;
using namespace troupe::gpu;
using namespace troupe::test;

namespace {

std::vector<token_id> counting(std::uint32_t count) {
  std::vector<token_id> tokens(count);
  std::iota(tokens.begin(), tokens.end(), 10);
  return tokens;
}

}  // namespace

TEST_CASE("cpu device: info tells what was asked for and what it costs", "[gpu]") {
  const auto model = load_tiny({});
  const auto device = make_backend(model, device_options(3, 5, "auto", 32));
  CHECK(device->info().name == "cpu");
  CHECK(device->info().isa == supported_kernels().front()->isa);
  CHECK(device->info().threads == 3);
  CHECK(device->info().kv.block_size == 32);
  CHECK(device->info().kv.num_blocks() == 5);
  CHECK(device->info().kv.block_bytes(0) ==
        2 * 2 * 2 * 16 * 2 * 32);  // K and V, layers, KV heads, dim, bytes, tokens
  CHECK(device->info().weight_bytes > 0);
}

TEST_CASE("cpu device: options that cannot be met are refused naming the value", "[gpu]") {
  using Catch::Matchers::Contains;
  const auto model = load_tiny({});
  CHECK_THROWS_WITH(make_backend(model, device_options(1, 4, "sse9")),
                    Contains("\"sse9\"") && Contains("portable"));
  CHECK_THROWS_WITH(make_backend(model, device_options(1, 4, "auto", 24)),
                    Contains("block_size: 24"));
  CHECK_THROWS_WITH(make_backend(model, device_options(1, 0)), Contains("num_blocks: 0"));
  CHECK_THROWS_AS(make_backend(model, device_options(1, 4000000000u)), std::invalid_argument);
  CHECK_THROWS_WITH(make_backend(model, device_options(1, 4000000000u)),
                    Contains("16384000000000 bytes") && Contains("available"));
}

TEST_CASE("cpu device: a released file may be truncated between two steps", "[gpu]") {
  for (const bool tied : {true, false}) {
    INFO((tied ? "tied" : "head of its own"));
    tiny_llama shape;
    shape.tied = tied;
    const temporary_file file(tiny_llama_bytes(shape));
    const auto model = load_model(file.path());
    cpu_backend device(model, device_options(2, 8));
    logit_record record(device);
    const auto run = [&](std::uint64_t key) {
      step_batch batch;
      batch.slices.push_back(slice_of(key, counting(40), 0, 40, {0, 1, 2}));
      want_all(batch.slices[0]);
      record.expect(batch);
      run_step(device, std::move(batch));
    };
    run(0);
    model->file.release_data();
    std::filesystem::resize_file(file.path(), 0);
    run(1);
    for (std::uint32_t p = 0; p < 40; ++p) CHECK(record.at(0, p) == record.at(1, p));
    CHECK_THROWS_WITH(
        cpu_backend(model, device_options(1, 8)),
        Catch::Matchers::Contains(file.path()) && Catch::Matchers::Contains("data was released"));
  }
}

TEST_CASE("cpu device: a step is planned and run by the same backend, once", "[gpu]") {
  const auto model = load_tiny({});
  const auto one = make_backend(model, device_options(1, 4)),
             other = make_backend(model, device_options(1, 4));
  step_batch batch;
  batch.step = 77;
  batch.slices.push_back(slice_of(5, counting(3), 0, 3, {0}));
  const auto planned = one->plan(batch);
  CHECK_THROWS_AS(other->run(*planned), batch_error);
  const step_result result = one->run(*planned);
  CHECK(result.step == 77);
  REQUIRE(result.slices.size() == 1);
  CHECK(result.slices[0].key == 5);
  CHECK_FALSE(result.slices[0].sampled);
  CHECK_THROWS_AS(one->run(*planned), batch_error);
}

TEST_CASE("cpu device: scores come one per target, in order, as log-probabilities", "[gpu]") {
  const auto model = load_tiny({});
  cpu_backend device(model, device_options(2, 8));
  logit_record record(device);
  step_batch batch;
  batch.slices.push_back(slice_of(0, counting(40), 0, 40, {0, 1, 2}));
  batch.slices[0].score_targets.assign(40, -1);
  batch.slices[0].decode.edit().top_logprobs = 2;
  for (const std::size_t i : {0, 17, 38})
    batch.slices[0].score_targets[i] = static_cast<token_id>(i + 3);
  record.expect(batch);
  const step_result result = run_step(device, batch);
  REQUIRE(result.slices[0].scores.size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    const std::uint32_t position = std::array{0u, 17u, 38u}[i];
    const auto& logits = record.at(0, position);
    double total = 0.0;
    for (const float x : logits) total += std::exp(static_cast<double>(x));
    const scored_token& score = result.slices[0].scores[i];
    CHECK(score.token == static_cast<token_id>(position + 3));
    CHECK(score.logprob == Approx(logits[position + 3] - std::log(total)).margin(1e-5));
    REQUIRE(score.top.size() == 2);
    CHECK(score.top[0].second >= score.top[1].second);
  }
}

TEST_CASE("cpu device: a sequence whose KV holds NaN gets bad logits alone", "[gpu]") {
  const auto model = load_tiny({});
  cpu_backend device(model, device_options(2, 4));
  std::vector<std::byte> broken(device.info().kv.block_bytes(0), std::byte{0xFF});
  REQUIRE(copy_now(device, {block_copy::direction::to_device, {0}, {broken}}));
  step_batch batch;
  batch.slices.push_back(slice_of(0, counting(9), 8, 1, {0}));
  batch.slices.push_back(slice_of(1, counting(9), 0, 9, {1}));
  for (auto& slice : batch.slices) slice.sample = true;
  const step_result result = run_step(device, batch);
  CHECK(result.slices[0].bad_logits);
  CHECK_FALSE(result.slices[0].sampled);
  CHECK_FALSE(result.slices[1].bad_logits);
  CHECK(result.slices[1].sampled);
}

TEST_CASE("cpu device: blocks copied out and into other blocks continue with the same bits",
          "[gpu]") {
  const auto model = load_tiny({});
  cpu_backend device(model, device_options(2, 8));
  logit_record record(device);
  const auto tokens = counting(40);
  const auto run = [&](std::uint64_t key, std::uint32_t start, std::uint32_t count,
                       std::vector<std::uint32_t> blocks) {
    step_batch batch;
    batch.slices.push_back(slice_of(key, tokens, start, count, blocks));
    want_all(batch.slices[0]);
    record.expect(batch);
    run_step(device, std::move(batch));
  };
  run(0, 0, 33, {0, 1, 2});
  // Host places lie where they like: here the other way round, with gaps.
  std::vector<std::byte> bytes(6 * device.info().kv.block_bytes(0));
  const auto cut = cut_into_blocks(bytes, device.info().kv.block_bytes(0));
  const std::vector<std::span<std::byte>> host{cut[5], cut[3], cut[0]};
  REQUIRE(copy_now(device, {block_copy::direction::to_host, {0, 1, 2}, host}));
  REQUIRE(copy_now(device, {block_copy::direction::to_device, {7, 3, 5}, host}));
  run(0, 33, 7, {0, 1, 2});
  run(1, 33, 7, {7, 3, 5});
  for (std::uint32_t p = 33; p < 40; ++p) CHECK(record.at(0, p) == record.at(1, p));
}

TEST_CASE("cpu device: a sequence forked within a block answers with the bits of one on its own",
          "[gpu]") {
  const auto model = load_tiny({});
  cpu_backend device(model, device_options(2, 12));
  logit_record record(device);
  const auto tokens = counting(40);
  auto other = tokens;  // the same prompt of 21 tokens, then another text
  for (std::size_t i = 21; i < other.size(); ++i) other[i] += 50;
  const auto run = [&](std::vector<sequence_slice> slices) {
    step_batch batch;
    batch.slices = std::move(slices);
    for (auto& slice : batch.slices) want_all(slice);
    record.expect(batch);
    run_step(device, std::move(batch));
  };
  run({slice_of(0, tokens, 0, 40, {0, 1, 2})});
  run({slice_of(1, other, 0, 40, {3, 4, 5})});
  run({slice_of(2, tokens, 0, 21, {6, 7})});
  // The parent goes on in the block that two children copy in the same step. Block 6 is shared.
  auto first = slice_of(3, other, 21, 8, {6, 8}), second = slice_of(4, tokens, 21, 2, {6, 9});
  first.copies = {{7, 8}};
  second.copies = {{7, 9}};
  run({slice_of(2, tokens, 21, 11, {6, 7}), std::move(first), std::move(second)});
  run({slice_of(2, tokens, 32, 8, {6, 7, 10}), slice_of(3, other, 29, 3, {6, 8}),
       slice_of(4, tokens, 23, 9, {6, 9})});
  for (std::uint32_t p = 21; p < 40; ++p) CHECK(record.at(2, p) == record.at(0, p));
  for (std::uint32_t p = 21; p < 32; ++p) {
    CHECK(record.at(3, p) == record.at(1, p));
    CHECK(record.at(4, p) == record.at(0, p));
  }
}

TEST_CASE(
    "cpu device: copies that do not fit are refused; outstanding ones finish before the device "
    "goes",
    "[gpu]") {
  const auto model = load_tiny({});
  std::atomic<int> finished{0};
  std::vector<std::byte> bytes;
  {
    using Catch::Matchers::Contains;
    cpu_backend device(model, device_options(1, 4));
    const std::uint64_t one = device.info().kv.block_bytes(0);
    bytes.resize(2 * one);
    const auto host = cut_into_blocks(bytes, one);
    const auto asking = [&](std::vector<std::uint32_t> blocks,
                            std::vector<std::span<std::byte>> places) {
      device.copy({block_copy::direction::to_host, std::move(blocks), std::move(places)},
                  [&](bool) { finished += 1000; });
    };
    CHECK_THROWS_AS(asking({0}, host), batch_error);
    CHECK_THROWS_WITH(asking({0}, host), Contains("2 host places for 1 blocks"));
    CHECK_THROWS_WITH(asking({0, 4}, host), Contains("blocks[1] is 4, the pool has 4"));
    CHECK_THROWS_WITH(asking({0, 1}, {host[0], host[1].first(5)}),
                      Contains("host[1] holds 5 bytes, a block has " + std::to_string(one)));
    for (int i = 0; i < 50; ++i) {
      device.copy({block_copy::direction::to_host, {0, 1}, host}, [&](bool ok) { finished += ok; });
    }
  }
  CHECK(finished == 50);
}
