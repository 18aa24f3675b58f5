// The scheduler's own share of a step: 32 requests that decode behind prompts of 2,000 tokens, with
// penalties (so every step's plan carries the whole history) and block tables of 130 blocks. What
// is measured is one step_done: results taken in, tokens told, the next step planned, and that plan
// taken apart as the executor does.
#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <vector>

#include "actors/core/scheduler_machine.hpp"
#include "tools/bench/bench.hpp"

namespace troupe {
namespace {

using steady = std::chrono::steady_clock;
using namespace troupe::core;

constexpr std::uint32_t sequences = 32, prompt_tokens = 2000;
constexpr int warm_steps = 50, measured_steps = 400;

class decoding_scheduler {
 public:
  decoding_scheduler() : machine_(limits()) {
    for (std::uint64_t i = 1; i <= sequences; ++i) {
      submit s;
      s.request = request_id{i};
      s.prompt = std::vector<token_id>(prompt_tokens, static_cast<token_id>(i));
      s.decode.ignore_eos = true;
      s.decode.sampling.presence_penalty = 0.5f;
      s.decode.stop_token_ids = {7, 9};
      send(s);
      carry_out();
    }
    while (plan_.items.size() < sequences || plan_.items.back().tokens.size() > 1) step();
    for (int i = 0; i < warm_steps; ++i) step();
  }

  double step() {
    step_done done{plan_.step, {}, 1000};
    for (const auto& item : plan_.items) {
      done.items.push_back({item.request, false, {}, {}});
      if (item.sample) done.items.back().sampled = scored_token{5, -1, {}, 0};
    }
    const auto began = steady::now();
    send(done);
    const auto spent = steady::now() - began;
    carry_out();
    return std::chrono::duration<double, std::micro>(spent).count();
  }

 private:
  static scheduler_limits limits() {
    scheduler_limits l;
    l.num_blocks = 8192;
    l.model_context = 8192;
    l.max_num_batched_tokens = 4096;
    l.max_step_us = 1'000'000'000;
    l.prefix_caching = false;
    return l;
  }
  template <class Event>
  void send(const Event& event) {
    out_.clear();
    machine_.on(event, ++now_, out_);
    for (auto& effect : out_)
      if (auto* plan = std::get_if<step_plan>(&effect)) plan_ = std::move(*plan);
  }
  /// The allocator's answers, outside of what is measured.
  void carry_out() {
    std::vector<granted> answers;
    for (const auto& effect : out_)
      if (const auto* ask = std::get_if<reserve>(&effect)) {
        granted g{ask->lease, {}, 0};
        for (std::uint32_t i = 0; i < ask->count; ++i) g.blocks.push_back(next_block_++);
        answers.push_back(std::move(g));
      }
    if (next_block_ > 8192) throw std::logic_error("the pool is too small for the bench");
    for (const auto& g : answers) send(g);
    if (!answers.empty()) carry_out();
  }

  scheduler_machine machine_;
  effects out_;
  step_plan plan_;
  block_id next_block_ = 0;
  time_us now_ = 0;
};

}  // namespace

double bench_scheduler_step_us() {
  decoding_scheduler work;
  std::vector<double> us;
  us.reserve(measured_steps);
  for (int i = 0; i < measured_steps; ++i) us.push_back(work.step());
  std::sort(us.begin(), us.end());
  return us[us.size() / 2];
}

}  // namespace troupe
