// Rules of the scheduler in a tight pool, with its allocator and mover: each case stands for
// planted faults (tests/sim/mutants) that all others let pass.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/actors/core/machine_alone.hpp"

using namespace troupe::core;
using namespace troupe::core::testing;
using troupe::token_id;

namespace {

scheduler_limits tight_pool(bool park) {
  auto l = roomy_limits();
  l.block_size = 4;
  l.num_blocks = 12;
  l.park = park;
  l.move_chunk_blocks = 2;
  l.move_limit_us = 1'000'000;
  l.prefix_caching = false;
  return l;
}

/// Requests 1 and 2 fill the pool until 2 has given way.
void fill_until_preempted(scheduler_world& w) {
  w.send(make_submit(1, 14, 30));
  w.send(make_submit(2, 14, 26));
  w.settle_allocator();
  for (int i = 0; i < 100 && w.preemptions == 0; ++i) {
    w.finish_step();
    w.settle_allocator();
  }
  REQUIRE(w.preemptions == 1);
}

}  // namespace

TEST_CASE("scheduler: the queue time and the cached tokens are those of the first grant",
          "[core]") {
  auto limits = tight_pool(false);
  limits.prefix_caching = true;
  scheduler_world w(limits);
  w.send(make_submit(9, 9, 1));
  w.run();
  w.send(make_submit(1, 14, 30));
  auto s = make_submit(2, 14, 26);
  s.prompt = prompt_of(14, 9);
  w.now += 77;
  w.send(s);
  const auto began = w.now;
  w.settle_allocator();
  const auto granted_after = w.now - began;
  while (w.preemptions == 0 && w.finish_step()) w.settle_allocator();
  REQUIRE(w.preemptions == 1);
  w.run();
  CHECK(w.client(2).end.preemptions == 1);
  CHECK(w.client(2).end.cached_tokens == 8);
  CHECK(w.client(2).end.times.queue_us == static_cast<std::uint64_t>(granted_after));
  CHECK(w.client(1).end.cached_tokens == 0);
  w.require_whole();
}

TEST_CASE("scheduler: a copy is late at its limit, and is abandoned once", "[core]") {
  scheduler_world w(tight_pool(true));
  w.mover_stuck = true;
  fill_until_preempted(w);
  REQUIRE(w.state(2) == request_state::moving_out);
  const auto began = w.now;
  auto timed = make_submit(3, 10, 5);
  timed.deadlines.queue = 500;
  w.send(timed);
  w.now = began + 600'000;  // a deadline before that of the copy, which is not forgotten
  w.send(tick{});
  CHECK(w.client(3).ended == 1);
  CHECK(w.given_up == 0);
  w.now = began + 1'000'000 - 1;
  w.send(tick{});
  CHECK(w.given_up == 0);
  w.now = began + 1'000'000;
  w.send(tick{});
  CHECK(w.given_up == 1);
  REQUIRE(w.sent<move_abandoned>().size() == 1);
  CHECK(w.sent<move_abandoned>()[0].elapsed_us == 1'000'000);
  CHECK(w.sent<move_abandoned>()[0].blocks == 2);
  auto later = make_submit(4, 10, 5);
  later.deadlines.queue = 500;
  w.send(later);
  w.now += 600'000;
  w.send(tick{});
  CHECK(w.client(4).ended == 1);
  CHECK(w.given_up == 1);
  w.mover_stuck = false;
  w.run();
  w.require_whole();
}

TEST_CASE("scheduler: a drain waits for an abandoned move, although no request is left", "[core]") {
  scheduler_world w(tight_pool(true));
  w.mover_stuck = true;
  fill_until_preempted(w);
  w.now += 1'000'000;
  w.send(tick{});
  REQUIRE(w.given_up == 1);
  w.cancel(1);
  w.cancel(2);
  w.send(drain{});
  w.finish_step();
  w.settle_allocator();
  CHECK(w.client(1).ended + w.client(2).ended == 2);
  CHECK_FALSE(w.machine.idle());
  CHECK(w.stops == 0);
  w.mover_stuck = false;
  w.run_to_rest();
  CHECK(w.stops == 1);
  w.require_whole();
}

TEST_CASE("scheduler: an audit names every lease and every copy once, in order", "[core]") {
  auto limits = tight_pool(true);
  limits.num_blocks = 18;
  scheduler_world w(limits);
  for (const std::uint64_t id : {1u, 2u, 3u}) w.send(make_submit(id, 14, 40));
  w.settle_allocator();
  for (int i = 0; i < 200 && w.state(2) != request_state::moving_out; ++i) {
    while (w.state(3) == request_state::moving_out) REQUIRE(w.move_one());
    w.finish_step();
    w.settle_allocator();
  }
  REQUIRE(w.state(2) == request_state::moving_out);
  w.mover_stuck = true;
  const auto once_in_order = [&] {
    w.now += 1'000'000;
    w.send(tick{});
    const auto audits = w.sent<audit>();
    REQUIRE(audits.size() == 1);
    for (const auto* list : {&audits[0].live, &audits[0].parked}) {
      CHECK(std::is_sorted(list->begin(), list->end()));
      CHECK(std::adjacent_find(list->begin(), list->end()) == list->end());
    }
    return audits[0];
  };
  w.now -= 1;
  CHECK(once_in_order().live.size() == 2);
  CHECK(w.given_up == 0);
  CHECK(once_in_order().parked.size() == 2);
  CHECK(w.given_up == 1);
  w.mover_stuck = false;
  w.run();
  w.require_whole();
}

TEST_CASE(
    "scheduler: no request reserves again before the blocks of the one that moves out are back",
    "[core]") {
  scheduler_world w(tight_pool(true));
  w.send(make_submit(1, 14, 30));
  w.send(make_submit(2, 14, 26));
  while (w.preemptions == 0)
    if (!w.allocate_one() && !w.answer_one()) REQUIRE(w.finish_step());
  REQUIRE(w.sent<preempted>().size() == 1);
  CHECK(w.sent<reserve>().empty());
  REQUIRE(w.sent<move_out>().size() == 1);
  CHECK(w.sent<move_out>()[0].blocks.size() == 2);
  w.run();
  w.require_whole();
}

TEST_CASE(
    "scheduler: the release after a move out, successful or not, says that the request lives on",
    "[core]") {
  for (const auto outcome : {move_outcome::ok, move_outcome::failed}) {
    scheduler_world w(tight_pool(true));
    fill_until_preempted(w);
    while (w.state(2) == request_state::moving_out) REQUIRE(w.move_one(outcome));
    REQUIRE(w.sent<release>().size() == 1);
    CHECK(w.sent<release>()[0].preempted);
    CHECK_FALSE(w.sent<release>()[0].forget);
    w.run();
    w.require_whole();
  }
  scheduler_world w(tight_pool(true));
  fill_until_preempted(w);
  w.mover_stuck = true;
  w.now += 1'000'000;
  w.send(tick{});
  REQUIRE(w.given_up == 1);
  w.mover_stuck = false;
  while (w.sent<release>().empty()) REQUIRE(w.move_one());
  CHECK(w.sent<release>()[0].preempted);
  CHECK_FALSE(w.sent<release>()[0].forget);
  w.run();
  w.require_whole();
}

TEST_CASE("scheduler: a request that comes back from the host tier goes on in the phase it left",
          "[core]") {
  for (const std::uint32_t prompt : {5u, 6u}) {  // its first token is there, or not yet
    INFO("prompt " << prompt);
    auto limits = roomy_limits();
    limits.block_size = 4;
    limits.max_num_batched_tokens = 3;
    limits.park = true;
    machine_alone a(limits);
    auto second = make_submit(2, prompt, 200);
    second.priority = 5;  // first here, and yet the one to give way
    a.send(second);
    a.send(granted{{request_id{2}, 1}, {2, 3}, 0});
    start_one(a, make_submit(1, 3, 200));
    a.send(denied{{request_id{1}, 1}});
    for (int i = 0; i < 3; ++i) a.step();
    REQUIRE(a.m.state_of(request_id{2}) == request_state::moving_out);
    a.send(moved{move_id{1}, move_outcome::ok});
    a.send(released{{request_id{2}, 1}, 2});
    a.send(granted{{request_id{1}, 1}, {4}, 0});
    REQUIRE(a.m.step_in_flight());
    a.send(granted{{request_id{2}, 2}, {2, 3}, 0});
    REQUIRE(a.m.state_of(request_id{2}) == request_state::moving_in);
    a.send(moved{move_id{2}, move_outcome::ok});
    CHECK(a.m.state_of(request_id{2}) ==
          (prompt == 5 ? request_state::decoding : request_state::prefilling));
  }
}
