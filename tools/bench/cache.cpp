// What the prefix cache and the host tier save, seen by a request: scheduler, allocator, mover and
// executor in this process, no network.
//
//   prefix  time to the first token of 512 tokens, cold and with the first 480 of them cached,
//   alternating park    a request of about 1,000 tokens is preempted for one of a better rank,
//   parked and brought back: the mover's own
//           time of all copies out and in, checksums included, beside the time to compute as many
//           tokens again
#include <fmt/core.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <random>
#include <stdexcept>
#include <vector>

#include "actors/api/quiet_observer.hpp"
#include "actors/runtime.hpp"
#include "gpu/host_limits.hpp"
#include "tools/bench/bench.hpp"

namespace troupe {
namespace {

constexpr std::uint32_t block_size = 16, prompt_tokens = 512, cached_tokens = 480,
                        parked_tokens = 1000;
constexpr int prefix_rounds = 9, park_rounds = 7;

class bench_sink final : public core::generation_sink {
 public:
  void accepted(std::uint32_t) override {}
  void delta(core::generation_delta) override {
    change([this] { ++deltas_; });
  }
  void end(core::generation_end how) override {
    change([&] { how_ = std::move(how); });
  }
  void wait_first() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return deltas_ > 0 || how_; });
  }
  /// Acknowledges deltas until the end.
  core::generation_end wait_end(core::generation& handle) {
    std::unique_lock lock(mutex_);
    for (int acknowledged = 0;;) {
      changed_.wait(lock, [&] { return deltas_ > acknowledged || how_; });
      if (how_) return *how_;
      acknowledged = deltas_;
      handle.delivered();
    }
  }

 private:
  template <class Change>
  void change(Change apply) {
    const std::lock_guard lock(mutex_);
    apply();
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  int deltas_ = 0;
  std::optional<core::generation_end> how_;
};

/// Keeps the mover's records and what must not happen.
class bench_observer final : public quiet_observer {
 public:
  struct copies {
    std::uint32_t blocks = 0;
    double ms = 0;
  };
  /// What was copied in that direction since the last call; throws when a copy or an invariant
  /// failed.
  copies take(bool out) {
    const std::lock_guard lock(mutex_);
    if (!trouble_.empty()) throw std::runtime_error(trouble_);
    return std::exchange(moved_[out], {});
  }

  void on_move(const core::move_record& m) override {
    const std::lock_guard lock(mutex_);
    if (m.outcome != core::move_outcome::ok)
      trouble_ = fmt::format("a copy ended as {}", name_of(m.outcome));
    moved_[m.out].blocks += m.blocks;
    moved_[m.out].ms += static_cast<double>(m.elapsed_us) / 1000;
  }
  void on_violation(const std::string& invariant) override {
    const std::lock_guard lock(mutex_);
    trouble_ = invariant;
  }

 private:
  std::mutex mutex_;
  copies moved_[2];
  std::string trouble_;
};

struct started {
  std::shared_ptr<bench_sink> sink = std::make_shared<bench_sink>();
  std::shared_ptr<core::generation> handle;
  core::generation_end wait() const {
    auto how = sink->wait_end(*handle);
    if (how.reason != core::end_reason::length)
      throw std::runtime_error(
          fmt::format("a request ended as {}: {}", name_of(how.reason), how.message));
    return how;
  }
};

/// One runtime over the model, with random prompts.
class bench_runtime {
 public:
  bench_runtime(const std::shared_ptr<const gpu::loaded_model>& model,
                const gpu::backend_options& options, const runtime_config& config)
      : vocab_(model->config.vocab),
        engine_(config, model, gpu::make_backend(model, options), watcher_,
                [](const std::string& what) {
                  fmt::print(stderr, "troupe-bench: the engine failed: {}\n", what);
                }) {}

  std::vector<token_id> random_tokens(std::size_t count) {
    std::vector<token_id> out(count);
    for (auto& t : out) t = static_cast<token_id>(1000 + random_() % (vocab_ - 1000));
    return out;
  }
  started start(std::vector<token_id> prompt, std::uint32_t max_tokens, std::int32_t priority = 0) {
    core::generation_request request;
    request.prompt = std::move(prompt);
    request.decode.max_tokens = max_tokens;
    request.priority = priority;
    request.decode.ignore_eos = true;
    request.decode.sampling.temperature = 0;
    started out;
    out.handle = engine_.submit(std::move(request), out.sink);
    return out;
  }
  /// Milliseconds to the first token; throws unless just `cached` tokens were found.
  double first_token_ms(const std::vector<token_id>& prompt, std::uint32_t cached) {
    const auto how = start(prompt, 1).wait();
    if (how.usage.cached != cached)
      throw std::runtime_error(
          fmt::format("{} tokens came from the cache, not {}", how.usage.cached, cached));
    return static_cast<double>(how.times.first_token_us) / 1000;
  }
  bench_observer& watcher() { return watcher_; }

 private:
  std::uint32_t vocab_;
  std::mt19937_64 random_{1};
  bench_observer watcher_;
  runtime engine_;
};

struct comparison {
  double full_ms = 0, saved_ms = 0, out_ms = 0, in_ms = 0, tokens = 0;
  double ratio() const { return saved_ms / full_ms; }
};

double median(std::vector<double> xs) {
  std::sort(xs.begin(), xs.end());
  return xs[xs.size() / 2];
}

comparison bench_prefix(bench_runtime& bench) {
  std::vector<double> cold, warm;
  for (int i = -1; i < prefix_rounds; ++i) {  // the first round warms up
    auto prompt = bench.random_tokens(prompt_tokens);
    const auto cold_ms = bench.first_token_ms(prompt, 0);
    const auto tail = bench.random_tokens(prompt_tokens - cached_tokens);
    std::copy(tail.begin(), tail.end(), prompt.begin() + cached_tokens);
    const auto warm_ms = bench.first_token_ms(prompt, cached_tokens);
    if (i < 0) continue;
    cold.push_back(cold_ms);
    warm.push_back(warm_ms);
  }
  return {median(cold), median(warm), 0, 0, prompt_tokens};
}

comparison bench_park(bench_runtime& bench) {
  std::vector<double> again, copies, outs, ins, tokens;
  for (int i = -1; i < park_rounds; ++i) {
    const auto victim = bench.start(bench.random_tokens(parked_tokens - 16), 160, 10);
    victim.sink->wait_first();
    const auto rival = bench.start(bench.random_tokens(prompt_tokens), 240, 0);
    rival.wait();
    victim.wait();
    const auto out = bench.watcher().take(true), in = bench.watcher().take(false);
    if (out.blocks == 0 || in.blocks != out.blocks)
      throw std::runtime_error("nothing was parked and brought back");
    const auto full =
        bench.first_token_ms(bench.random_tokens(std::size_t{out.blocks} * block_size), 0);
    if (i < 0) continue;
    again.push_back(full);
    copies.push_back(out.ms + in.ms);
    outs.push_back(out.ms);
    ins.push_back(in.ms);
    tokens.push_back(out.blocks * block_size);
  }
  return {median(again), median(copies), median(outs), median(ins), median(tokens)};
}

}  // namespace

void bench_cache(const std::string& path, gpu::backend_options options, bool json) {
  const auto model = gpu::load_model(path);
  runtime_config config;
  config.model = path;
  options.block_size = config.block_size = block_size;

  config.num_kv_blocks = options.num_blocks = 400;
  std::optional<bench_runtime> bench(std::in_place, model, options, config);
  const auto prefix = bench_prefix(*bench);

  // Room for either of the two requests, and for both only at first.
  config.num_kv_blocks = options.num_blocks = (parked_tokens + prompt_tokens) / block_size + 6;
  config.enable_prefix_caching = false;
  config.kv_offloading_bytes = 256ull << 20;
  bench.reset();
  bench.emplace(model, options, config);
  model->file.release_data();
  const auto park = bench_park(*bench);

  if (json) {
    fmt::print(
        "{{\"machine\":\"{}\",\"prefix\":{{\"prompt_tokens\":{},\"cached_tokens\":{},\"cold_ms\":{:"
        ".2f},\"cached_ms\":{:.2f},"
        "\"ratio\":{:.4f}}},\"park\":{{\"tokens\":{:.0f},\"out_ms\":{:.2f},\"in_ms\":{:.2f},"
        "\"recompute_ms\":{:.2f},"
        "\"ratio\":{:.4f}}}}}\n",
        gpu::machine_name(), prompt_tokens, cached_tokens, prefix.full_ms, prefix.saved_ms,
        prefix.ratio(), park.tokens, park.out_ms, park.in_ms, park.full_ms, park.ratio());
    return;
  }
  fmt::print("machine  {}\n", gpu::machine_name());
  fmt::print(
      "prefix   {:8.1f} ms to the first token of {} cold, {:.1f} ms with {} cached: {:.3f}\n",
      prefix.full_ms, prompt_tokens, prefix.saved_ms, cached_tokens, prefix.ratio());
  fmt::print(
      "park     {:8.1f} ms to compute {:.0f} tokens again, {:.1f} ms out and {:.1f} ms in: "
      "{:.3f}\n",
      park.full_ms, park.tokens, park.out_ms, park.in_ms, park.ratio());
}

}  // namespace troupe
