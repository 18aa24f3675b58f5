// Public failures of schedulers, by their case ids: who gets its turn when work keeps arriving.
#include <catch2/catch.hpp>
#include <map>

#include "tests/actors/core/scheduler_world.hpp"

using namespace troupe::core;
using namespace troupe::core::testing;

TEST_CASE(
    "scheduler: C160 under steady arrivals of long prompts every stream decodes in every step",
    "[core]") {
  const auto arrivals_every = GENERATE(1, 3, 7);
  const std::uint32_t step_tokens =
      GENERATE(12u, 64u);  // 12: every seat's row and half as much again
  CAPTURE(arrivals_every, step_tokens);
  auto limits = roomy_limits();
  limits.max_num_seqs = 6;  // four streams, two prompts under way
  limits.max_num_batched_tokens = step_tokens;
  limits.num_blocks = 400;
  limits.max_num_queued_reqs = 10;
  scheduler_world w(limits);
  for (std::uint64_t id = 1; id <= 4; ++id) w.send(make_submit(id, 4, 150));
  for (bool all_decode = false; !all_decode;) {
    w.settle_allocator();
    REQUIRE(w.finish_step());
    all_decode = true;
    for (std::uint64_t id = 1; id <= 4; ++id)
      all_decode = all_decode && !w.client(id).tokens.empty();
  }
  std::uint64_t next = 5;
  std::map<std::uint64_t, std::size_t> before;
  std::size_t arrivals_done = 0;
  for (int step = 0; step < 100; ++step) {
    if (step % arrivals_every == 0)
      w.send(make_submit(next++, 200, 2));  // many are refused: the queue is full
    w.settle_allocator();
    REQUIRE(w.in_flight());
    for (std::uint64_t id = 1; id <= 4; ++id) {
      CAPTURE(step, id);
      REQUIRE(w.planned(id));
      before[id] = w.client(id).tokens.size();
    }
    w.finish_step();
    for (std::uint64_t id = 1; id <= 4; ++id) REQUIRE(w.client(id).tokens.size() == before[id] + 1);
  }
  for (std::uint64_t id = 5; id < next; ++id) arrivals_done += w.client(id).ended;
  CHECK(arrivals_done > 0);  // and the prompts advance, too
  w.run();
  w.require_whole();
}

TEST_CASE(
    "scheduler: with few tokens a step, every stream decodes in every step while prompts arrive, "
    "and they advance",
    "[core]") {
  const std::uint32_t step_tokens = GENERATE(1u, 3u, 5u, 6u, 8u);
  CAPTURE(step_tokens);
  auto limits = roomy_limits();
  limits.max_num_seqs = 6;  // with fewer tokens than that, fewer run
  limits.max_num_batched_tokens = step_tokens;
  limits.num_blocks = 400;
  limits.max_num_queued_reqs = 10;
  scheduler_world w(limits);
  std::uint64_t next = 1;
  for (; next <= 5; ++next) w.send(make_submit(next, 4, 150));
  int stuck = 0;
  for (int step = 0; step < 1000; ++step) {
    if (step % 20 == 0) w.send(make_submit(next++, 40, 60));
    w.settle_allocator();
    REQUIRE(w.in_flight());
    REQUIRE(w.machine.running() <= step_tokens);
    int prefills_waiting = 0, prefills_planned = 0;
    for (std::uint64_t id = 1; id < next; ++id) {
      CAPTURE(step, id);
      const auto state = w.state(id);
      REQUIRE(state != request_state::decoding);
      prefills_waiting += state == request_state::prefilling;
      prefills_planned += state == request_state::prefilling_in_flight;
    }
    stuck = prefills_waiting > 0 && prefills_planned == 0 ? stuck + 1 : 0;
    REQUIRE(stuck <= 1);  // who came during a step waits for the next
    w.finish_step();
  }
  w.run();
  w.require_whole();
}
