// 32 requests in steady state, as the scheduler would run them: prompts of 256 tokens that begin
// with one of eight shared texts of 128, answers of 64 to 192 tokens, a block asked for and one
// published every 16 tokens, releases, and a pool of 2,900 blocks whose free ones have all become
// cached, so that every new block costs an eviction.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "actors/core/blocks/block_ledger.hpp"
#include "tools/bench/bench.hpp"

namespace troupe {
namespace {

using steady = std::chrono::steady_clock;
using namespace troupe::core;

constexpr std::uint32_t pool_blocks = 2900, block_size = 16, sequences = 32;
constexpr std::uint32_t shared_tokens = 128, prompt_tokens = 256, shared_texts = 8;
constexpr int warm_steps = 4000, measured_steps = 4000, runs = 7;

struct sequence {
  lease_id lease;
  std::vector<token_id> tokens;
  std::uint32_t blocks = 0, published = 0, end = 0;
};

class workload {
 public:
  workload() : ledger_({pool_blocks, block_size, true}), running_(sequences) {
    for (auto& s : running_) begin(s);
  }

  /// One decode step: every sequence gets a token. Answers the time spent in the ledger.
  double step() {
    spent_ = {};
    for (auto& s : running_) {
      if (s.tokens.size() >= s.end) {
        timed([&] { ledger_.release({s.lease, end_reason::length, false, false}); });
        ++releases_;
        begin(s);
      }
      s.tokens.push_back(token());
      grow(s);
      publish(s);
    }
    return std::chrono::duration<double, std::micro>(spent_).count();
  }

  double check_us() {
    spent_ = {};
    timed([&] {
      if (const auto broken = ledger_.check(); !broken.empty()) throw std::logic_error(broken);
    });
    return std::chrono::duration<double, std::micro>(spent_).count();
  }

  std::uint64_t events() const { return events_; }
  std::uint64_t releases() const { return releases_; }
  block_counts counts() const { return ledger_.counts(); }

 private:
  template <class F>
  void timed(F f) {
    const auto began = steady::now();
    f();
    if (!ledger_.conserved() || ledger_.counts().total != pool_blocks)
      throw std::logic_error("blocks were lost");
    spent_ += steady::now() - began;
    ++events_;
  }
  token_id token() { return static_cast<token_id>(random_() % 49152); }

  void begin(sequence& s) {
    s = {{request_id{++last_}, 1}, {}, 0, 0, 0};
    std::mt19937_64 shared(last_ % shared_texts);
    for (std::uint32_t i = 0; i < prompt_tokens; ++i)
      s.tokens.push_back(i < shared_tokens ? static_cast<token_id>(shared() % 49152) : token());
    s.end = prompt_tokens + 64 + static_cast<std::uint32_t>(random_() % 128);
    reserve ask{s.lease, prompt_tokens / block_size + 1, sequences, prefix_query{{}, s.tokens}};
    timed([&] {
      const auto got = ledger_.reserve(ask);
      if (!got) throw std::logic_error("the pool is too small for the bench");
      s.published = got->cached;
    });
    s.blocks = ask.count;
    publish(s);
  }
  void grow(sequence& s) {
    if (s.tokens.size() + block_size <= std::size_t{s.blocks} * block_size) return;
    timed([&] {
      if (!ledger_.reserve({s.lease, 1, 0, std::nullopt}))
        throw std::logic_error("the pool is too small for the bench");
    });
    ++s.blocks;
  }
  void publish(sequence& s) {
    const auto whole = static_cast<std::uint32_t>(s.tokens.size() / block_size);
    if (whole <= s.published) return;
    core::publish m{
        s.lease,
        s.published,
        {s.tokens.begin() + s.published * block_size, s.tokens.begin() + whole * block_size}};
    timed([&] {
      if (!ledger_.publish(m)) throw std::logic_error("a publish was refused");
    });
    s.published = whole;
  }

  std::mt19937_64 random_{1};
  block_ledger ledger_;
  std::vector<sequence> running_;
  std::uint64_t last_ = 0, events_ = 0, releases_ = 0;
  steady::duration spent_{};
};

double median(std::vector<double> xs) {
  std::sort(xs.begin(), xs.end());
  return xs[xs.size() / 2];
}

}  // namespace

void bench_bookkeeping(double step_ms, bool json) {
  workload work;
  for (int i = 0; i < warm_steps; ++i) work.step();
  const auto events = work.events(), releases = work.releases();
  std::vector<double> step_us, check_us;
  double worst = 0;
  for (int r = 0; r < runs; ++r) {
    double sum = 0;
    for (int i = 0; i < measured_steps; ++i) {
      const auto us = work.step();
      sum += us;
      worst = std::max(worst, us);
    }
    step_us.push_back(sum / measured_steps);
    for (int i = 0; i < 8; ++i) check_us.push_back(work.check_us());
  }
  const double per_step = runs * measured_steps;
  const auto events_a_step = static_cast<double>(work.events() - events) / per_step;
  const auto releases_a_step = static_cast<double>(work.releases() - releases) / per_step;
  const auto typical = median(step_us), check = median(check_us), share = typical / (step_ms * 10);
  if (work.counts().evicted_total == 0)
    throw std::logic_error("the pool was never short of blocks");
  const auto scheduler_us = bench_scheduler_step_us();
  if (json) {
    fmt::print(
        "{{\"sequences\":{},\"pool_blocks\":{},\"events_per_step\":{:.2f},\"releases_per_step\":{:."
        "3f},\"step_us\":{:.2f},"
        "\"worst_step_us\":{:.1f},\"scheduler_step_us\":{:.1f},\"full_check_us\":{:.1f},\"device_"
        "step_ms\":{:.1f},\"share_"
        "percent\":{:.4f}}}\n",
        sequences, pool_blocks, events_a_step, releases_a_step, typical, worst, scheduler_us, check,
        step_ms, share);
    return;
  }
  fmt::print("pool     {} blocks, {} sequences, {:.2f} events and {:.3f} releases a step\n",
             pool_blocks, sequences, events_a_step, releases_a_step);
  fmt::print("ledger   {:8.2f} us a step, {:.1f} us the worst, sums checked after every event\n",
             typical, worst);
  fmt::print("scheduler{:8.2f} us a step of {} sequences behind 2,000 tokens, with penalties\n",
             scheduler_us, sequences);
  fmt::print("check    {:8.1f} us for one visit of every block\n", check);
  fmt::print("share    {:8.4f} % of a step of {:.1f} ms\n", share, step_ms);
}

}  // namespace troupe
