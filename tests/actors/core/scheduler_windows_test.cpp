// Layer groups with a window as the scheduler sees them: when a group's blocks go back, and what
// parking, coming back and forking do with a lease that has given some back.
#include <catch2/catch.hpp>

#include "tests/actors/core/machine_alone.hpp"

using namespace troupe::core;
using namespace troupe::core::testing;

namespace {

/// Either group may be the one with the window.
using windows = std::vector<std::uint32_t>;

scheduler_limits two_groups(windows of) {
  auto l = roomy_limits();
  l.block_size = 4;
  l.num_blocks = 12;
  l.windows = std::move(of);
  l.prefix_caching = false;
  return l;
}

/// Requests 1 and 2 fill the pool until 2 is on its way to the host tier, with blocks trimmed.
scheduler_world parking(windows of) {
  auto limits = two_groups(std::move(of));
  limits.park = true;
  limits.move_chunk_blocks = 3;
  scheduler_world w(limits);
  w.send(make_submit(1, 14, 30));
  w.send(make_submit(2, 14, 26));
  w.settle_allocator();
  for (int i = 0; i < 100 && w.state(2) != request_state::moving_out; ++i) {
    w.finish_step();
    w.settle_allocator();
  }
  REQUIRE(w.state(2) == request_state::moving_out);
  REQUIRE(w.trimmed > 0);
  return w;
}

void require_answers(scheduler_world& w) {
  for (const std::uint64_t id : {1u, 2u}) {
    scheduler_world alone(roomy_limits());
    alone.send(make_submit(id, 14, id == 1 ? 30 : 26));
    alone.run();
    CHECK(w.client(id).tokens == alone.client(id).tokens);
  }
  w.require_whole();
}

/// Request 1 needs a block that it is denied while its fork, request 2, has not made its copy.
void preempt_a_fresh_fork(machine_alone& a, std::vector<block_id> other,
                          std::vector<block_id> leader, granted child) {
  a.send(make_submit(8, 5, 4));  // beside it, since alone it may not be denied
  a.send(granted{{request_id{8}, 1}, std::move(other), 0});
  a.send(group_of(2, 31, 20));
  a.send(granted{{request_id{1}, 1}, std::move(leader), 0});
  a.step();
  a.step();
  REQUIRE(a.sent<fork_lease>().size() == 1);
  child.lease = a.sent<fork_lease>()[0].child;
  a.send(child);
  a.send(denied{{request_id{1}, 1}});
  a.step();
  REQUIRE(a.sent<preempted>().size() == 1);
  REQUIRE(a.sent<preempted>()[0].request == request_id{2});
}

}  // namespace

TEST_CASE("windows: a group's blocks go back as its window passes them, and once", "[core]") {
  machine_alone a(two_groups({5, 0}));
  a.send(make_submit(1, 9, 12));
  const lease_id lease{request_id{1}, 1};
  a.send(granted{lease, {0, 12, 1, 13, 2, 14}, 0});
  CHECK(a.sent<trim>().empty());
  CHECK(a.plan.items.at(0).blocks == std::vector<block_id>{0, 12, 1, 13, 2, 14});
  // 9 tokens are computed: the next one stands at position 9 and looks at 5 to 9.
  a.step();
  CHECK(a.sent<trim>() == std::vector<trim>{{lease, 0, 1}});
  CHECK(a.plan.items.at(0).blocks == std::vector<block_id>{no_block, 12, 1, 13, 2, 14});
  a.send(granted{lease, {3, 15}, 0});
  for (std::uint32_t computed = 10; computed < 12; ++computed) {
    INFO(computed << " tokens");
    a.step();
    CHECK(a.sent<trim>().empty());
  }
  a.step();  // position 12 looks at 8 to 12
  CHECK(a.sent<trim>() == std::vector<trim>{{lease, 0, 2}});
  CHECK(a.plan.items.at(0).blocks ==
        std::vector<block_id>{no_block, 12, no_block, 13, 2, 14, 3, 15});
}

TEST_CASE("windows: a window of one token leaves the row of the next one", "[core]") {
  machine_alone a(two_groups({1}));  // and no group that looks back over everything
  a.send(make_submit(1, 9, 12));
  a.send(granted{{request_id{1}, 1}, {0, 1, 2}, 0});
  a.step();
  CHECK(a.sent<trim>() == std::vector<trim>{{{request_id{1}, 1}, 0, 2}});
}

TEST_CASE("windows: what was trimmed is neither parked nor missed when the request comes back",
          "[core]") {
  auto w = parking(GENERATE(windows{0, 5}, windows{5, 0}));
  w.run();
  CHECK(w.parks > 0);
  CHECK(w.returns > 0);
  require_answers(w);
}

TEST_CASE("windows: a copy that does not come back whole is computed again in a new lease",
          "[core]") {
  auto w = parking(GENERATE(windows{0, 5}, windows{5, 0}));
  for (int i = 0; i < 1000 && w.state(2) != request_state::moving_in; ++i) {
    if (!w.move_one()) w.finish_step();
    w.settle_allocator();
  }
  REQUIRE(w.state(2) == request_state::moving_in);
  REQUIRE(w.move_one(move_outcome::corrupt));
  const auto back = w.sent<release>();
  REQUIRE(back.size() == 1);
  CHECK(back[0].preempted);  // the request lives on
  CHECK_FALSE(back[0].forget);
  w.run();
  require_answers(w);
}

TEST_CASE("forks: of a fork preempted before its copy only the shared rows are parked", "[core]") {
  auto limits = roomy_limits();
  limits.park = true;
  machine_alone a(limits);
  preempt_a_fresh_fork(a, {0}, {3, 4}, {{}, {3, 7}, 1, {4}});
  CHECK(a.sent<preempted>()[0].parked);
  const auto moves = a.sent<move_out>();
  REQUIRE(moves.size() == 1);
  CHECK(moves[0].total == 1);
  CHECK(moves[0].blocks == std::vector<block_id>{3});
}

TEST_CASE("windows: a fork preempted before its copy is not parked when its window has moved on",
          "[core]") {
  auto limits = roomy_limits();
  limits.park = true;
  limits.windows = {2, 0};
  machine_alone a(limits);
  preempt_a_fresh_fork(a, {0, 300}, {3, 303, 4, 304}, {{}, {3, 303, 7, 307}, 1, {4, 304}});
  CHECK_FALSE(a.sent<preempted>()[0].parked);
  REQUIRE(a.sent<release>().size() == 1);
  CHECK(a.sent<release>()[0].lease.request == request_id{2});
}
