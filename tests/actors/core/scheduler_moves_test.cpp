// The host tier as the scheduler sees it: who is parked, what pins a lease, and that every copy
// that fails or is late ends in computing again.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/actors/core/scheduler_world.hpp"

using namespace troupe::core;
using namespace troupe::core::testing;

namespace {

scheduler_limits tight() {
  auto l = roomy_limits();
  l.block_size = 4;
  l.num_blocks = 12;
  l.park = true;
  l.move_chunk_blocks = 2;
  l.move_limit_us = 1'000'000;
  l.prefix_caching = false;
  return l;
}

/// Requests 1 and 2 fill the pool until 2, the lower in rank, is on its way to the host tier.
struct parking {
  scheduler_world w;
  explicit parking(scheduler_limits limits = tight(), std::uint32_t first = 14,
                   std::uint32_t second = 14)
      : w(limits) {
    w.send(make_submit(1, first, 30));
    w.send(make_submit(2, second, 26));
    w.settle_allocator();
    for (int i = 0; i < 100 && w.state(2) != request_state::moving_out; ++i) {
      w.finish_step();
      w.settle_allocator();
    }
    REQUIRE(w.state(2) == request_state::moving_out);
    REQUIRE(w.parks == 1);
  }
  void let_pass(time_us us) {
    w.now += us;
    w.send(tick{});
    w.settle_allocator();
  }
};

/// Three that grow until the last of them is on its way to the host tier.
scheduler_world crowd() {
  auto limits = tight();
  limits.num_blocks = 18;
  scheduler_world w(limits);
  for (const std::uint64_t id : {1u, 2u, 3u}) w.send(make_submit(id, 14, 40));
  w.settle_allocator();
  for (int i = 0; i < 200 && w.parks == 0; ++i) {
    w.finish_step();
    w.settle_allocator();
  }
  REQUIRE(w.state(3) == request_state::moving_out);
  return w;
}

void require_three_answers(scheduler_world& w) {
  for (const std::uint64_t id : {1u, 2u, 3u}) CHECK(w.client(id).tokens.size() == 40);
  w.require_whole();
}

std::vector<troupe::token_id> alone(std::uint64_t id) {
  scheduler_world w(roomy_limits());
  w.send(make_submit(id, 14, id == 2 ? 26 : 30));
  w.run();
  return w.client(id).tokens;
}

void require_equal_answers(scheduler_world& w) {
  for (const std::uint64_t id : {1u, 2u}) {
    INFO("request " << id);
    CHECK(w.client(id).end.why == end_reason::length);
    CHECK(w.client(id).tokens == alone(id));
  }
  w.require_whole();
}

}  // namespace

TEST_CASE("scheduler: a parked request comes back and goes on where it was", "[core]") {
  parking p;
  p.w.run();
  CHECK(p.w.returns >= 2);  // of two blocks each
  require_equal_answers(p.w);
}

TEST_CASE(
    "scheduler: C151 the blocks of a chunk in flight belong to no other request until it is over",
    "[core]") {
  parking p;
  p.w.cancel(2);
  CHECK(p.w.state(2) == request_state::retiring);
  p.w.send(make_submit(3, 14, 8));
  for (int i = 0; i < 20;
       ++i) {  // others go on; the world fails when a step writes what a move reads
    p.w.finish_step();
    p.w.settle_allocator();
    CHECK(p.w.blocks_of(2) > 0);
  }
  CHECK(p.w.client(2).ended == 0);
  REQUIRE(p.w.move_one());
  CHECK(p.w.client(2).ended == 1);
  p.w.settle_allocator();
  CHECK(p.w.blocks_of(2) == 0);
  p.w.run();
  CHECK(p.w.client(3).tokens.size() == 8);
  p.w.require_whole();
}

TEST_CASE(
    "scheduler: C152 a copy begins only when no step writes its blocks, and holds what was "
    "computed",
    "[core]") {
  parking p;  // the world fails when a step in flight names the request
  CHECK_FALSE(p.w.planned(2));
  const auto computed = 14 + p.w.client(2).tokens.size() - 1;
  REQUIRE(p.w.move_one());
  p.w.run_to_rest();
  REQUIRE(p.w.state(2) == request_state::parked);
  std::vector<troupe::token_id> copied;
  for (const auto& block : p.w.host.begin()->second)
    copied.insert(copied.end(), block.begin(), block.end());
  auto history = prompt_of(14, 2);
  history.insert(history.end(), p.w.client(2).tokens.begin(), p.w.client(2).tokens.end());
  REQUIRE(copied.size() >= computed);
  CHECK(std::equal(copied.begin(), copied.begin() + static_cast<std::ptrdiff_t>(computed),
                   history.begin()));
}

TEST_CASE("scheduler: C154 a completion that is late or comes twice frees its blocks once",
          "[core]") {
  parking p;
  p.w.cancel(2);
  const auto before = p.w.machine.ignored_events();
  REQUIRE(p.w.move_one());
  for (std::uint64_t move = 1; move < 4; ++move) p.w.send(moved{move_id{move}, move_outcome::ok});
  CHECK(p.w.machine.ignored_events() == before + 3);
  CHECK(p.w.client(2).ended == 1);
  p.w.run();
  p.w.require_whole();  // each lease was released once
}

TEST_CASE(
    "scheduler: C155 200 rounds of a cancel while parking leave pool and host tier as they were",
    "[core]") {
  scheduler_world w(tight());
  std::uint64_t id = 0, met = 0;
  for (int round = 0; round < 200; ++round) {
    w.send(make_submit(++id, 14, 30));
    w.send(make_submit(++id, 14, 30));
    w.settle_allocator();
    const auto second = id;
    for (int i = 0; i < 100 && w.state(second) != request_state::moving_out; ++i) {
      w.finish_step();
      w.settle_allocator();
    }
    for (int chunks = round % 4; chunks > 0; --chunks) w.move_one();  // in the way out, or parked
    met += w.state(second) == request_state::gone ? 0 : 1;
    w.cancel(second);
    w.run();
  }
  CHECK(met == 200);
  w.require_whole();
}

TEST_CASE(
    "scheduler: C157 a copy that never ends costs its request a recompute and its blocks wait",
    "[core]") {
  parking p;
  p.w.mover_stuck = true;
  p.let_pass(2'000'000);
  CHECK(p.w.given_up == 1);
  CHECK(p.w.state(2) == request_state::awaiting_recompute);
  CHECK(p.w.blocks_of(2) > 0);  // nobody may touch them yet
  const auto tokens = p.w.client(1).tokens.size();
  for (int i = 0; i < 3; ++i) {
    p.w.finish_step();
    p.w.settle_allocator();
  }
  CHECK(p.w.client(1).tokens.size() >= tokens);
  p.w.mover_stuck = false;
  p.w.run();
  require_equal_answers(p.w);
}

TEST_CASE("scheduler: while a copy is stuck no request reserves its blocks again and again",
          "[core]") {
  parking p(tight(), 6, 22);  // what request 2 needs is more than the copy leaves
  p.w.mover_stuck = true;
  p.let_pass(2'000'000);
  p.w.cancel(1);
  p.w.finish_step();
  int asks = 0;
  while (p.w.allocate_one() || p.w.answer_one()) REQUIRE(++asks < 100);
  CHECK(p.w.state(2) == request_state::awaiting_recompute);
  p.w.mover_stuck = false;
  p.w.run();
  CHECK(p.w.client(2).end.why == end_reason::length);
  p.w.require_whole();
}

TEST_CASE("scheduler: while a copy is stuck no request is parked behind it", "[core]") {
  auto w = crowd();
  w.mover_stuck = true;
  w.now += 2'000'000;
  w.send(tick{});
  for (int i = 0; i < 100 && w.preemptions == 1; ++i) {
    w.settle_allocator();
    w.finish_step();
  }
  CHECK(w.preemptions == 2);
  CHECK(w.parks == 1);
  w.mover_stuck = false;
  w.run();
  require_three_answers(w);
}

TEST_CASE("scheduler: no further request is preempted while blocks are being released", "[core]") {
  auto w = crowd();
  for (int i = 0; i < 10; ++i) {
    w.finish_step();
    w.settle_allocator();
    CHECK(w.preemptions == 1);
  }
  w.run();
  require_three_answers(w);
}

TEST_CASE("scheduler: a copy that comes back corrupt is recomputed, with the same answer",
          "[core]") {
  for (const auto outcome : {move_outcome::corrupt, move_outcome::failed}) {
    parking p;
    while (p.w.state(2) != request_state::moving_in) {
      p.w.allocate_one();
      p.w.answer_one();
      if (p.w.state(2) == request_state::moving_in) break;
      if (!p.w.move_one()) p.w.finish_step();
    }
    REQUIRE(p.w.move_one(outcome));
    CHECK(p.w.state(2) == request_state::prefilling_in_flight);  // in its new blocks
    p.w.run();
    CHECK(p.w.failed_moves == 1);
    require_equal_answers(p.w);
  }
}

TEST_CASE("scheduler: without room on the host tier the request recomputes", "[core]") {
  auto limits = tight();
  scheduler_world w(limits);
  w.host_blocks = 2;
  w.send(make_submit(1, 14, 30));
  w.send(make_submit(2, 14, 26));
  w.run();
  CHECK(w.parks > 0);
  CHECK(w.returns == 0);
  CHECK(w.failed_moves == w.parks);
  require_equal_answers(w);
}

TEST_CASE("scheduler: drain and stop wait for the chunk in flight, no longer", "[core]") {
  parking p;
  p.w.send(stop{end_reason::shutdown, "going down"});
  if (p.w.in_flight()) p.w.finish_step();
  CHECK(p.w.stops == 0);
  REQUIRE(p.w.move_one());
  CHECK(p.w.stops == 1);
  CHECK(p.w.client(2).end.why == end_reason::shutdown);
  p.w.run_to_rest();
  p.w.require_whole();
}
