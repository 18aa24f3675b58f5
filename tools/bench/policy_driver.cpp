#include "tools/bench/policy_driver.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

namespace troupe {
namespace {

using steady = std::chrono::steady_clock;

double ms_since(steady::time_point from) {
  return std::chrono::duration<double, std::milli>(steady::now() - from).count();
}

core::generation_request request_of(std::vector<token_id> prompt, std::uint32_t max_tokens) {
  core::generation_request out;
  out.prompt = std::move(prompt);
  out.decode.max_tokens = max_tokens;
  out.decode.ignore_eos = true;
  out.decode.sampling.temperature = 0;
  return out;
}

/// One run: the main thread submits, the callbacks' thread times.
class policy_run {
 public:
  policy_run(callback_client& clients, const std::vector<timed_request>& requests,
             const grouping& how)
      : clients_(clients),
        requests_(requests),
        how_(how),
        outcomes_(requests.size()),
        last_ms_(requests.size()) {}

  std::vector<timed_outcome> run() {
    began_ = steady::now();
    while (submitted_ < requests_.size()) {
      if (how_.fixed_batch) wait_none_running();
      if (!await_arrival()) continue;
      for (const auto index : how_.fixed_batch ? next_batch() : std::exchange(waiting_, {}))
        submit(index);
    }
    wait_none_running();
    if (!trouble_.empty()) throw std::runtime_error(trouble_);
    return std::move(outcomes_);
  }

 private:
  double now_s() const { return ms_since(began_) / 1000; }
  void sleep_until(double at_s) const {
    std::this_thread::sleep_until(
        began_ + std::chrono::duration_cast<steady::duration>(std::chrono::duration<double>(at_s)));
  }
  void collect() {
    for (const double now = now_s(); next_ < requests_.size() && requests_[next_].at_s <= now;
         ++next_)
      waiting_.push_back(next_);
  }
  // Somebody waits, and the window that the first of them opened is over.
  bool await_arrival() {
    collect();
    if (waiting_.empty()) {
      sleep_until(requests_[next_].at_s);
      return false;
    }
    if (how_.window_ms > 0) {
      sleep_until(requests_[waiting_.front()].at_s + how_.window_ms / 1000);
      collect();
    }
    return true;
  }
  std::deque<std::size_t> next_batch() {
    std::deque<std::size_t> batch;
    const auto wanted = length_class(requests_[waiting_.front()]);
    for (auto i = waiting_.begin(); i != waiting_.end() && batch.size() < how_.fixed_batch;) {
      const bool fits = !how_.buckets || length_class(requests_[*i]) == wanted;
      if (fits) batch.push_back(*i);
      i = fits ? waiting_.erase(i) : i + 1;
    }
    return batch;
  }

  void submit(std::size_t index) {
    {
      const std::lock_guard lock(mutex_);
      ++running_;
    }
    ++submitted_;
    const auto& request = requests_[index];
    clients_.submit(
        request_of(request.prompt, request.max_tokens),
        [this, index](const core::generation_delta& d) { told(index, d); },
        [this, index](const core::generation_end& how) { ended(index, how); });
  }
  void told(std::size_t index, const core::generation_delta& delta) {
    auto& outcome = outcomes_[index];
    const double now = ms_since(began_);
    if (outcome.tokens == 0)
      outcome.first_ms = now - requests_[index].at_s * 1000;
    else
      outcome.gaps_ms.push_back(now - last_ms_[index]);
    last_ms_[index] = now;
    outcome.tokens = delta.completion_tokens;
  }
  void ended(std::size_t index, const core::generation_end& how) {
    outcomes_[index].end_ms = ms_since(began_) - requests_[index].at_s * 1000;
    outcomes_[index].tokens = how.usage.completion;
    if (outcomes_[index].first_ms == 0) outcomes_[index].first_ms = outcomes_[index].end_ms;
    const std::lock_guard lock(mutex_);
    if (how.reason != core::end_reason::length)
      trouble_ = fmt::format("a request ended as {}: {}", name_of(how.reason), how.message);
    --running_;
    changed_.notify_all();
  }
  void wait_none_running() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return running_ == 0; });
  }

  callback_client& clients_;
  const std::vector<timed_request>& requests_;
  const grouping how_;
  // Written by the callbacks' thread alone, until all are over.
  std::vector<timed_outcome> outcomes_;
  std::vector<double> last_ms_;
  steady::time_point began_;
  std::deque<std::size_t> waiting_;  // arrived, not submitted
  std::size_t next_ = 0, submitted_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint32_t running_ = 0;
  std::string trouble_;
};

}  // namespace

void step_counter::on_step(const core::step_record& step) {
  const std::lock_guard lock(mutex_);
  ++steps_;
  rows_ += step.sequences;
}

void step_counter::on_violation(const std::string& invariant) {
  const std::lock_guard lock(mutex_);
  trouble_ = invariant;
}

double step_counter::take_rows_per_step() {
  const std::lock_guard lock(mutex_);
  if (!trouble_.empty()) throw std::runtime_error(trouble_);
  const auto steps = std::exchange(steps_, 0), rows = std::exchange(rows_, 0);
  return steps ? static_cast<double>(rows) / static_cast<double>(steps) : 0;
}

std::uint32_t length_class(const timed_request& request) {
  return static_cast<std::uint32_t>(std::bit_width(request.max_tokens));
}

policy_driver::policy_driver(const runtime_config& config,
                             std::shared_ptr<const gpu::loaded_model> model,
                             std::shared_ptr<gpu::backend> device)
    : engine_(config, std::move(model), std::move(device), steps_,
              [](const std::string& what) {
                fmt::print(stderr, "troupe-bench: the engine failed: {}\n", what);
              }),
      clients_(engine_) {}

policy_outcome policy_driver::run(const std::vector<timed_request>& requests, const grouping& how) {
  steps_.take_rows_per_step();
  policy_outcome out;
  const auto began = steady::now();
  out.requests = policy_run(clients_, requests, how).run();
  out.elapsed_s = ms_since(began) / 1000;
  out.rows_per_step = steps_.take_rows_per_step();
  for (const auto& one : out.requests) out.tokens += one.tokens;
  return out;
}

std::vector<token_id> policy_driver::answer(std::vector<token_id> prompt,
                                            std::uint32_t max_tokens) {
  std::vector<token_id> tokens;
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<core::generation_end> over;
  auto request = request_of(std::move(prompt), max_tokens);
  request.decode.top_logprobs = 0;  // the deltas then name their tokens
  clients_.submit(
      std::move(request),
      [&](const core::generation_delta& delta) {
        for (const auto& piece : delta.tokens) tokens.push_back(piece.token);
      },
      [&](const core::generation_end& how) {
        const std::lock_guard lock(mutex);
        over = how;
        changed.notify_all();
      });
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return over.has_value(); });
  if (over->reason != core::end_reason::length || tokens.size() != max_tokens)
    throw std::runtime_error(fmt::format("a request of {} tokens ended as {} with {}: {}",
                                         max_tokens, name_of(over->reason), tokens.size(),
                                         over->message));
  return tokens;
}

}  // namespace troupe
