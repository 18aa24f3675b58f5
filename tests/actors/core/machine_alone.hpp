// The scheduler machine without a world: what it says of one event at a time, answers by hand.
#pragma once
#include <utility>
#include <vector>

#include "tests/actors/core/scheduler_world.hpp"

namespace troupe::core::testing {

template <class Effect>
std::vector<Effect> all(const effects& out) {
  std::vector<Effect> found;
  for (const auto& e : out)
    if (const auto* x = std::get_if<Effect>(&e)) found.push_back(*x);
  return found;
}

struct machine_alone {
  scheduler_machine m;
  effects out;     ///< of the last event
  step_plan plan;  ///< the last one
  time_us now = 1000;
  explicit machine_alone(scheduler_limits limits) : m(std::move(limits)) {}
  template <class Event>
  void send(const Event& event) {
    out.clear();
    m.on(event, now, out);
    for (const auto& p : sent<step_plan>()) plan = p;
  }
  /// The step in flight is done; whoever samples draws token 5.
  void step() {
    step_done done{plan.step, {}, 10};
    for (const auto& item : plan.items) {
      done.items.push_back({item.request, false, {}, {}});
      if (item.sample) done.items.back().sampled = scored_token{5, -1, {}, 0};
      for (const auto& tail : item.tails)
        done.items.back().tails.push_back({tail.request, scored_token{6, -1, {}, 0}});
    }
    send(done);
  }
  template <class Effect>
  std::vector<Effect> sent() const {
    return all<Effect>(out);
  }
};

/// Requests 1 to `answers`, seeds 100 on.
inline submit group_of(std::uint32_t answers, std::uint32_t prompt_tokens,
                       std::uint32_t max_tokens) {
  auto s = make_submit(1, prompt_tokens, max_tokens);
  s.decode.sampling.seed = 100;
  for (std::uint32_t i = 1; i < answers; ++i) s.tails.push_back({request_id{1 + i}, 100 + i});
  return s;
}

/// Its prompt, one block long, is granted the block of its number; the first step with it is in
/// flight.
inline void start_one(machine_alone& a, const submit& s) {
  a.send(s);
  a.send(granted{{s.request, 1}, {static_cast<block_id>(s.request.value)}, 0});
}

inline item_result token_for(std::uint64_t id, token_id token) {
  return {request_id{id}, false, scored_token{token, -1, {}, 0}, {}};
}

}  // namespace troupe::core::testing
