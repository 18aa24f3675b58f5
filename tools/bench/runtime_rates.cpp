// Through the runtime: requests by the embedding interface, rates from the steps that the executor
// reports.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <random>
#include <stdexcept>

#include "actors/api/quiet_observer.hpp"
#include "actors/embedding/callback_client.hpp"
#include "actors/runtime.hpp"
#include "tools/bench/engine_rates.hpp"

namespace troupe {
namespace {

using steady = std::chrono::steady_clock;

/// The time from one steady step's end to the next one's, and how many tokens were decoded until
/// then.
struct steady_interval {
  double seconds = 0;
  std::uint64_t decoded = 0;
};

/// Collects the intervals in which all streams decoded and no prompt was computed.
class steady_watch final : public quiet_observer {
 public:
  void expect(std::uint32_t streams) {
    const std::lock_guard lock(mutex_);
    streams_ = streams;
    decoded_ = 0;
    was_steady_ = false;
    running_ = 0;
    intervals_.clear();
  }
  void began() {
    const std::lock_guard lock(mutex_);
    ++running_;
  }
  void ended(const core::generation_end& how, core::end_reason wanted) {
    const std::lock_guard lock(mutex_);
    if (how.reason != wanted && how.reason != core::end_reason::length)
      trouble_ = fmt::format("a request ended as {}: {}", name_of(how.reason), how.message);
    --running_;
    changed_.notify_all();
  }
  void on_step(const core::step_record& step) override {
    const auto now = steady::now();
    const std::lock_guard lock(mutex_);
    decoded_ += step.decode_tokens;
    const bool is_steady = step.prefill_tokens == 0 && step.decode_tokens == streams_;
    if (is_steady && was_steady_)
      intervals_.push_back({std::chrono::duration<double>(now - last_).count(), decoded_});
    was_steady_ = is_steady;
    last_ = now;
    changed_.notify_all();
  }
  void on_violation(const std::string& invariant) override {
    const std::lock_guard lock(mutex_);
    trouble_ = invariant;
    changed_.notify_all();
  }

  /// Throws when the requests are over before.
  std::vector<steady_interval> wait_intervals(std::size_t count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return intervals_.size() >= count || running_ == 0; });
    if (intervals_.size() < count && trouble_.empty())
      trouble_ = fmt::format("{} of {} steps had all {} sequences in them", intervals_.size(),
                             count, streams_);
    if (!trouble_.empty()) throw std::runtime_error(trouble_);
    return intervals_;
  }
  void wait_over() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return running_ == 0; });
    if (!trouble_.empty()) throw std::runtime_error(trouble_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint32_t streams_ = 0, running_ = 0;
  std::uint64_t decoded_ = 0;
  bool was_steady_ = false;
  steady::time_point last_;
  std::vector<steady_interval> intervals_;
  std::string trouble_;
};

runtime_config config_of(const gpu::device_info& device, std::uint32_t max_streams,
                         bool whole_prompts) {
  runtime_config out;
  out.block_size = device.kv.block_size;
  out.num_kv_blocks = device.kv.num_blocks();
  out.max_num_seqs = max_streams;
  out.max_num_queued_reqs = std::max(out.max_num_queued_reqs, max_streams);
  out.queue_timeout_s = out.first_token_timeout_s = out.request_timeout_s = 0;
  if (whole_prompts) out.max_step_ms = 60'000;
  return out;
}

class runtime_rates final : public engine_rates {
 public:
  runtime_rates(std::shared_ptr<const gpu::loaded_model> model,
                std::shared_ptr<gpu::backend> device, std::uint32_t max_streams, bool whole_prompts)
      : vocab_(model->config.vocab),
        token_bytes_(static_cast<double>(device->info().kv.token_bytes())),
        config_(config_of(device->info(), max_streams, whole_prompts)),
        engine_(config_, std::move(model), std::move(device), watch_,
                [](const std::string& what) {
                  fmt::print(stderr, "troupe-bench: the engine failed: {}\n", what);
                }),
        clients_(engine_) {}

  double prefill(std::uint32_t tokens) override {
    watch_.expect(0);
    const auto begin = steady::now();
    submit(tokens, 1, core::end_reason::length);
    watch_.wait_over();
    return tokens / std::chrono::duration<double>(steady::now() - begin).count();
  }

  std::vector<decode_rate> decode(const decode_plan& plan) override {
    watch_.expect(plan.streams);
    std::vector<std::shared_ptr<core::generation>> requests;
    for (std::uint32_t s = 0; s < plan.streams; ++s)
      requests.push_back(
          submit(plan.prompt, plan.longest() - plan.prompt, core::end_reason::cancelled));
    const auto intervals = watch_.wait_intervals(std::size_t{plan.windows} * plan.steps);
    for (const auto& one : requests) one->cancel(core::end_reason::cancelled, engine_.now());
    watch_.wait_over();
    std::vector<decode_rate> out;
    for (std::uint32_t w = 0; w < plan.windows; ++w) {
      double seconds = 0, read = 0;
      for (std::uint32_t i = 0; i < plan.steps; ++i) {
        const auto& one = intervals[std::size_t{w} * plan.steps + i];
        seconds += one.seconds;
        // Each decoded token has read the prompt, what was decoded before it, and itself.
        read += token_bytes_ *
                static_cast<double>(std::uint64_t{plan.streams} * plan.prompt + one.decoded);
      }
      out.push_back({plan.streams * plan.steps / seconds, read / seconds});
    }
    return out;
  }

 private:
  std::shared_ptr<core::generation> submit(std::uint32_t prompt, std::uint32_t max_tokens,
                                           core::end_reason wanted) {
    core::generation_request request;
    // Never the same again: no prefix is found in the cache.
    std::vector<token_id> tokens(prompt);
    for (auto& token : tokens) token = static_cast<token_id>(random_() % vocab_);
    request.prompt = std::move(tokens);
    request.decode.max_tokens = max_tokens;
    request.decode.ignore_eos = true;
    request.decode.sampling.temperature = 0;
    watch_.began();
    return clients_.submit(
        std::move(request), [](const core::generation_delta&) {},
        [this, wanted](const core::generation_end& how) { watch_.ended(how, wanted); });
  }

  std::uint32_t vocab_;
  double token_bytes_;
  runtime_config config_;
  std::mt19937_64 random_{1};
  steady_watch watch_;
  runtime engine_;
  callback_client clients_;  // after the engine: it must go first
};

}  // namespace

std::uint32_t decode_plan::longest() const {
  // While the last prompts are computed, in chunks of at least a block, the first sequences decode
  // already.
  constexpr std::uint32_t smallest_chunk = 16, most_chunks = 256, slack = 16;
  const auto chunks = std::min(streams * prompt / smallest_chunk, most_chunks);
  return prompt + windows * steps + chunks + slack;
}

std::uint32_t decode_plan::blocks(std::uint32_t block_size) const {
  return streams * ((longest() + block_size - 1) / block_size);
}

std::unique_ptr<engine_rates> rates_through_runtime(std::shared_ptr<const gpu::loaded_model> model,
                                                    std::shared_ptr<gpu::backend> device,
                                                    std::uint32_t max_streams, bool whole_prompts) {
  return std::make_unique<runtime_rates>(std::move(model), std::move(device), max_streams,
                                         whole_prompts);
}

}  // namespace troupe
