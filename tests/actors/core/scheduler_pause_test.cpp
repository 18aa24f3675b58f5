// Slow readers: their requests pause, keep their blocks, give way first, and end by name at the
// limit.
#include <catch2/catch.hpp>

#include "tests/actors/core/scheduler_world.hpp"

using namespace troupe::core;
using namespace troupe::core::testing;

namespace {

scheduler_limits small_pool() {
  auto l = roomy_limits();
  l.block_size = 4;
  l.num_blocks = 12;
  l.model_context = 48;
  l.prefix_caching = false;
  return l;
}

void stall(scheduler_world& w, std::uint64_t id) {
  w.send(reader_stalled{request_id{id}});
}
void resume(scheduler_world& w, std::uint64_t id) {
  w.send(reader_resumed{request_id{id}});
}

void step(scheduler_world& w, int times = 1) {
  for (int i = 0; i < times; ++i) {
    w.run_to_rest();
    REQUIRE(w.finish_step());
  }
  w.run_to_rest();
}

}  // namespace

TEST_CASE("scheduler: a stalled request keeps its blocks, gets the step in flight and nothing more",
          "[core]") {
  scheduler_world w(roomy_limits());
  w.send(make_submit(1, 20, 50));
  step(w, 3);
  REQUIRE(w.planned(1));
  stall(w, 1);
  CHECK(w.state(1) == request_state::decoding_in_flight);
  const auto told = w.client(1).tokens.size();
  step(w);
  CHECK(w.state(1) == request_state::paused);
  CHECK(w.client(1).tokens.size() == told + 1);
  CHECK_FALSE(w.in_flight());
  CHECK(w.blocks_of(1) >= 2);
  CHECK(w.machine.at_rest());
  CHECK_FALSE(w.machine.idle());
  resume(w, 1);
  CHECK(w.planned(1));
  CHECK_FALSE(w.machine.at_rest());
  w.run();
  CHECK(w.client(1).tokens.size() == 50);
  w.require_whole();
}

TEST_CASE("scheduler: neighbours of a paused request run on", "[core]") {
  scheduler_world w(roomy_limits());
  w.send(make_submit(1, 20, 50));
  w.send(make_submit(2, 20, 50));
  step(w, 3);
  stall(w, 1);
  w.run();
  CHECK(w.client(2).tokens.size() == 50);
  CHECK(w.client(1).tokens.size() < 10);
  CHECK(w.state(1) == request_state::paused);
  CHECK(w.preemptions == 0);
  w.resume_all();
  w.run();
  w.require_whole();
}

TEST_CASE(
    "scheduler: a reader that stays behind ends its request as slow_reader at the limit, not "
    "before",
    "[core]") {
  auto limits = roomy_limits();
  limits.stall_limit_us = 500'000;
  scheduler_world w(limits);
  w.send(make_submit(1, 20, 50));
  step(w, 3);
  stall(w, 1);
  step(w);
  w.now += 400'000;
  w.send(tick{});
  CHECK(w.state(1) == request_state::paused);
  resume(w, 1);  // the limit counts anew from the next stall
  w.now += 400'000;
  stall(w, 1);
  step(w);
  w.now += 400'000;
  w.send(tick{});
  REQUIRE(w.state(1) == request_state::paused);
  w.now += 100'000;
  w.send(tick{});
  CHECK(w.client(1).end.why == end_reason::slow_reader);
  CHECK(w.client(1).end.message == "the reader did not catch up within 500 ms");
  CHECK(w.client(1).end.phase == life_phase::decode);
  w.run_to_rest();
  w.require_whole();
}

TEST_CASE("scheduler: without a limit a paused request waits for ever, and still drains by stop",
          "[core]") {
  auto limits = roomy_limits();
  limits.stall_limit_us = 0;
  scheduler_world w(limits);
  w.send(make_submit(1, 20, 50));
  step(w, 2);
  stall(w, 1);
  step(w);
  w.now += 1'000'000'000'000;
  w.send(tick{});
  CHECK(w.state(1) == request_state::paused);
  w.send(stop{end_reason::shutdown, "going down"});
  CHECK(w.stops == 1);
  w.run_to_rest();
  w.require_whole();
}

TEST_CASE("scheduler: a new request without blocks gets those of a paused request of any rank",
          "[core]") {
  const bool park = GENERATE(false, true);
  auto limits = small_pool();
  limits.park = park;
  scheduler_world w(limits);
  auto first = make_submit(1, 20, 20);
  first.priority = -5;
  w.send(first);
  step(w, 3);
  stall(w, 1);
  step(w);
  REQUIRE(w.state(1) == request_state::paused);
  w.send(make_submit(2, 24, 20));
  w.run();
  CHECK(w.client(2).tokens.size() == 20);
  CHECK(w.preemptions == 1);
  CHECK(w.state(1) == (park ? request_state::parked : request_state::awaiting_recompute));
  w.run();
  CHECK(w.client(1).ended == 0);  // nothing is computed for it while its reader is behind
  resume(w, 1);
  w.run();
  CHECK(w.client(1).tokens.size() == 20);
  w.require_whole();
}

TEST_CASE("scheduler: a new request without a seat gets that of a paused request", "[core]") {
  auto limits = roomy_limits();
  limits.max_num_seqs = 1;
  scheduler_world w(limits);
  w.send(make_submit(1, 20, 20));
  step(w, 3);
  w.send(make_submit(2, 20, 5));
  step(w, 2);
  REQUIRE(w.state(2) == request_state::queued);
  stall(w, 1);
  w.run();
  CHECK(w.client(2).tokens.size() == 5);
  CHECK(w.state(1) == request_state::awaiting_recompute);
  w.resume_all();
  w.run();
  CHECK(w.client(1).tokens.size() == 20);
  w.require_whole();
}

TEST_CASE(
    "scheduler: growth takes the blocks of a paused request before those of one that computes",
    "[core]") {
  scheduler_world w(small_pool());
  w.send(make_submit(1, 8, 30));
  w.send(make_submit(2, 8, 30));
  w.send(make_submit(3, 8, 30));
  step(w, 4);
  stall(w, 1);
  w.run();
  CHECK(w.client(2).tokens.size() == 30);
  CHECK(w.client(3).tokens.size() == 30);
  CHECK(w.client(1).ended == 0);
  CHECK(w.client(2).end.preemptions == 0);
  resume(w, 1);
  w.run();
  CHECK(w.client(1).end.preemptions >= 1);
  w.require_whole();
}

TEST_CASE(
    "scheduler: stalls and resumptions that are late, repeated or of unknown requests are counted "
    "and change nothing",
    "[core]") {
  scheduler_world w(roomy_limits());
  stall(w, 9);
  resume(w, 9);
  CHECK(w.machine.ignored_events() == 2);
  w.send(make_submit(1, 20, 3));
  resume(w, 1);
  stall(w, 1);
  stall(w, 1);
  CHECK(w.machine.ignored_events() == 4);
  CHECK(w.state(1) == request_state::awaiting_grant);  // it was asked for before
  w.run();
  CHECK(w.state(1) == request_state::paused);
  CHECK(w.client(1).tokens.empty());
  w.cancel(1);
  resume(w, 1);
  stall(w, 1);
  CHECK(w.machine.ignored_events() == 6);
  w.run_to_rest();
  w.require_whole();
}

TEST_CASE("scheduler: a stalled head of the queue holds no other request up", "[core]") {
  auto limits = roomy_limits();
  limits.max_num_seqs = 1;
  scheduler_world w(limits);
  w.send(make_submit(1, 20, 4));
  w.run_to_rest();
  w.send(make_submit(2, 20, 4));
  w.send(make_submit(3, 20, 4));
  stall(w, 2);
  w.run();
  CHECK(w.client(1).ended == 1);
  CHECK(w.client(3).ended == 1);
  CHECK(w.state(2) == request_state::queued);
  CHECK(w.machine.at_rest());
  resume(w, 2);
  w.run();
  CHECK(w.client(2).ended == 1);
  w.require_whole();
}
