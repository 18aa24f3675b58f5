// The device's own threads: each operation cut into chunks over 2 to 8 workers gives the bits of
// one, while blocks of others are copied out and in; the host tier's memory is filled and checked
// meanwhile.
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "actors/host_memory.hpp"
#include "config/bytes/checksum.hpp"
#include "tests/gpu/cpu/device_rig.hpp"

using namespace troupe;
using namespace troupe::gpu;
using namespace troupe::test;

namespace {

std::vector<token_id> counting(std::uint32_t first, std::uint32_t count) {
  std::vector<token_id> tokens(count);
  std::iota(tokens.begin(), tokens.end(), static_cast<token_id>(first));
  return tokens;
}

tiny_llama shape_of(std::uint32_t type) {
  tiny_llama shape;
  shape.type = type;
  shape.tied = type != 1;
  shape.layers = 1;
  if (type >= 12 && type <= 14) shape.width = shape.ffn_width = 256;
  return shape;
}

/// A step of five sequences, one of them long, then three steps of one token each: all logits, in
/// order.
std::vector<std::vector<float>> short_story(cpu_backend& device) {
  std::vector<std::vector<float>> rows;
  device.observe_logits([&](std::uint32_t, std::uint32_t, auto logits) {
    rows.emplace_back(logits.begin(), logits.end());
  });
  std::uint32_t start = 0;
  for (const std::uint32_t count : {19u, 1u, 1u}) {
    step_batch batch;
    for (std::uint32_t i = 0; i < 5; ++i) {
      const auto tokens = counting(20 * i, start + count);
      batch.slices.push_back(slice_of(i, tokens, start, count, {2 * i, 2 * i + 1}));
      auto& slice = batch.slices.back();
      slice.sample = true;
      slice.decode.edit().sampling.temperature = i % 2 ? 0.8f : 0.0f;
      slice.decode.edit().top_logprobs = 3;
      if (i == 1) want_all(slice);
    }
    const auto result = run_step(device, std::move(batch));
    for (const auto& slice : result.slices)
      rows.push_back({static_cast<float>(slice.sampled->token), slice.sampled->logprob});
    start += count;
  }
  return rows;
}

/// Copies blocks that no step names, out to `host` and back in, until told to stop.
class copying {
 public:
  copying(cpu_backend& device, const host_memory& host) : device_(device), host_(host) { again(0); }
  ~copying() {
    stop_ = true;
    while (!ended_) std::this_thread::yield();
  }
  std::uint32_t rounds() const { return rounds_; }

 private:
  void again(std::uint32_t round) {
    const bool out = round % 2 == 0;
    device_.copy({out ? block_copy::direction::to_host : block_copy::direction::to_device,
                  {10, 11},
                  {host_.slot(0), host_.slot(1)}},
                 [this, round](bool) {
                   sum_ ^= checksum64(host_.slot(round % 2));
                   ++rounds_;
                   stop_ ? void(ended_ = true) : again(round + 1);
                 });
  }
  cpu_backend& device_;
  const host_memory& host_;
  std::uint64_t sum_ = 0;
  std::atomic<std::uint32_t> rounds_ = 0;
  std::atomic<bool> stop_ = false, ended_ = false;
};

}  // namespace

TEST_CASE("cpu device: steps on 2 to 8 threads beside copies have the bits of one thread",
          "[tsan]") {
  for (const std::uint32_t type : {3u, 8u, 1u, 12u, 14u}) {
    const auto model = load_tiny(shape_of(type));
    for (const kernel_table* kernels : supported_kernels()) {
      cpu_backend one(model, device_options(1, 12, kernels->isa));
      const auto alone = short_story(one);
      REQUIRE(alone.size() > 30);
      for (const std::uint32_t threads : {2u, 3u, 8u}) {
        INFO(kernels->isa << ", type " << type << ", threads " << threads);
        cpu_backend device(model, device_options(threads, 12, kernels->isa));
        const host_memory host(2 * device.info().kv.block_bytes(0), device);
        std::vector<std::vector<float>> rows;
        std::uint32_t copies = 0;
        {
          const copying beside(device, host);
          rows = short_story(device);
          copies = beside.rounds();
        }
        CHECK(rows == alone);
        CHECK(copies > 0);
      }
    }
  }
}

TEST_CASE("cpu device: two devices on one model work side by side", "[tsan]") {
  const auto model = load_tiny(shape_of(3));
  std::vector<std::vector<float>> first, second;
  const auto work = [&](std::vector<std::vector<float>>& rows) {
    cpu_backend device(model, device_options(3, 12));
    rows = short_story(device);
  };
  std::thread other{[&] { work(second); }};
  work(first);
  other.join();
  CHECK(first == second);
}

TEST_CASE("cpu device: copies asked for from several threads all end, each in its place",
          "[tsan]") {
  const auto model = load_tiny({});
  std::atomic<int> finished{0};
  constexpr int threads = 4, each = 25;
  cpu_backend device(model, device_options(2, 8));
  const host_memory host(threads * device.info().kv.block_bytes(0), device);
  std::vector<std::thread> askers;
  for (std::uint32_t who = 0; who < threads; ++who)
    askers.emplace_back([&, who] {
      for (int i = 0; i < each; ++i)
        device.copy({i % 2 ? block_copy::direction::to_device : block_copy::direction::to_host,
                     {who},
                     {host.slot(who)}},
                    [&](bool ok) { finished += ok; });
    });
  for (auto& t : askers) t.join();
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(300);
  while (finished < threads * each && std::chrono::steady_clock::now() < until)
    std::this_thread::yield();
  CHECK(finished == threads * each);
}
