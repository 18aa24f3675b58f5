// Rules of the scheduler for asks and answers: each case stands for planted faults
// (tests/sim/mutants) that all others let pass.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/actors/core/machine_alone.hpp"

using namespace troupe::core;
using namespace troupe::core::testing;
using troupe::token_id;

namespace {

/// Both have a prompt of 10 and one block, and ask for growth; only the first asked while it was
/// alone.
void start_two(machine_alone& a) {
  start_one(a, make_submit(1, 10, 200));
  start_one(a, make_submit(2, 10, 200));
}

}  // namespace

TEST_CASE(
    "scheduler: a request that gives up its seat or its reserve lets the next one reserve at once",
    "[core]") {
  auto limits = roomy_limits();
  limits.max_num_seqs = 1;
  machine_alone a(limits);
  a.send(make_submit(1, 10, 5));
  a.send(make_submit(2, 10, 5));
  REQUIRE(a.sent<reserve>().empty());
  a.send(cancel{request_id{1}, end_reason::client_gone, a.now});
  REQUIRE(a.sent<reserve>().size() == 1);
  CHECK(a.sent<reserve>()[0].lease == lease_id{request_id{2}, 1});
}

TEST_CASE("scheduler: a grant of another number of blocks than asked for is a violation",
          "[core]") {
  machine_alone a(roomy_limits());
  a.send(make_submit(1, 10, 200));
  a.send(granted{{request_id{1}, 1}, {1}, 0});
  CHECK(a.sent<violation>().empty());
  REQUIRE(a.sent<reserve>().size() == 1);  // growth
  a.send(granted{{request_id{1}, 1}, {2, 3}, 0});
  CHECK(a.sent<violation>().size() == 1);

  machine_alone b(roomy_limits());
  b.send(make_submit(1, 40, 200));
  b.send(granted{{request_id{1}, 1}, {1, 2, 3, 4}, 0});
  CHECK(b.sent<violation>().size() == 1);
}

TEST_CASE("scheduler: growth denied to a request that is alone is a violation and ends it",
          "[core]") {
  machine_alone a(roomy_limits());
  a.send(make_submit(1, 10, 200));
  a.send(granted{{request_id{1}, 1}, {1}, 0});
  a.send(denied{{request_id{1}, 1}});
  CHECK(a.sent<violation>().size() == 1);
  CHECK(a.m.state_of(request_id{1}) == request_state::retiring);
  a.send(step_failed{step_id{1}, "late"});
  REQUIRE(a.sent<ended>().size() == 1);
  CHECK(a.sent<ended>()[0].why == end_reason::engine_failed);
}

TEST_CASE("scheduler: growth denied while others hold blocks is no violation", "[core]") {
  machine_alone a(roomy_limits());
  a.send(make_submit(1, 10, 200));
  a.send(granted{{request_id{1}, 1}, {1}, 0});
  a.send(make_submit(2, 10, 200));
  a.send(granted{{request_id{1}, 1}, {2}, 0});
  a.send(granted{{request_id{2}, 1}, {3}, 0});
  REQUIRE(a.sent<reserve>().size() == 1);
  a.send(denied{{request_id{2}, 1}});
  CHECK(a.sent<violation>().empty());
  CHECK(a.m.state_of(request_id{2}) != request_state::retiring);
}

TEST_CASE("scheduler: only blocks that came back cause another reserve", "[core]") {
  machine_alone a(roomy_limits());
  a.send(make_submit(1, 10, 200));
  a.send(granted{{request_id{1}, 1}, {1}, 0});
  a.send(make_submit(2, 10, 200));
  a.send(denied{{request_id{2}, 1}});
  a.send(released{{request_id{7}, 1}, 0});
  CHECK(a.sent<reserve>().empty());
  a.send(released{{request_id{7}, 1}, 1});
  CHECK(a.sent<reserve>().size() == 1);
}

TEST_CASE("scheduler: growth that was denied is asked for again when blocks come back", "[core]") {
  machine_alone a(roomy_limits());
  start_two(a);
  a.send(granted{{request_id{1}, 1}, {20}, 0});
  a.send(denied{{request_id{2}, 1}});
  CHECK(a.sent<reserve>().empty());
  a.send(released{{request_id{7}, 1}, 1});
  REQUIRE(a.sent<reserve>().size() == 1);
  CHECK(a.sent<reserve>()[0].lease.request == request_id{2});
}

TEST_CASE("scheduler: a stalled request that lacks a block gives its seat away at once", "[core]") {
  auto limits = roomy_limits();
  limits.max_num_seqs = 1;
  machine_alone a(limits);
  start_one(a, make_submit(1, 10, 200));
  for (std::uint64_t step = 1; a.m.step_in_flight(); ++step)
    a.send(step_done{step_id{step}, {token_for(1, 5)}, 10});
  REQUIRE(a.m.state_of(request_id{1}) == request_state::decoding);
  a.send(make_submit(2, 10, 5));
  CHECK(a.sent<preempted>().empty());
  a.send(reader_stalled{request_id{1}});
  CHECK(a.sent<preempted>().size() == 1);
  CHECK(a.m.state_of(request_id{2}) == request_state::awaiting_grant);
}

TEST_CASE("scheduler: once the pool has denied, the queue holds its limit and no more", "[core]") {
  auto limits = roomy_limits();
  limits.max_num_queued_reqs = 1;
  machine_alone a(limits);
  start_one(a, make_submit(1, 10, 5));
  a.send(make_submit(2, 10, 5));
  a.send(denied{{request_id{2}, 1}});
  a.send(make_submit(3, 10, 5));
  REQUIRE(a.sent<refused>().size() == 1);
  CHECK(a.sent<refused>()[0].why == refusal::queue_full);
}

TEST_CASE(
    "scheduler: a reserve is for all that is computed and one token, and growth ends where the "
    "request does",
    "[core]") {
  const auto asked = [](std::uint32_t prompt, std::uint32_t tokens) {
    machine_alone a(roomy_limits());
    a.send(make_submit(1, prompt, tokens));
    REQUIRE(a.sent<reserve>().size() == 1);
    return a.sent<reserve>()[0].count;
  };
  CHECK(asked(16, 5) == 2);
  CHECK(asked(16, 1) == 1);
  CHECK(asked(15, 5) == 1);
  machine_alone a(roomy_limits());
  start_one(a, make_submit(1, 10, 7));  // its last token needs no place
  CHECK(a.sent<reserve>().empty());
  machine_alone b(roomy_limits());
  start_one(b, make_submit(1, 10, 8));
  CHECK(b.sent<reserve>().size() == 1);
}

TEST_CASE("scheduler: a reserve after a denial lifts it until its answer is here", "[core]") {
  machine_alone a(roomy_limits());
  start_one(a, make_submit(1, 10, 5));
  a.send(make_submit(2, 10, 5));
  a.send(denied{{request_id{2}, 1}});
  a.send(step_failed{step_id{1}, "x"});  // nobody runs: the head asks
  REQUIRE(a.sent<reserve>().size() == 1);
  a.send(granted{{request_id{2}, 2}, {2}, 0});
  a.send(make_submit(3, 10, 5));
  CHECK(a.sent<reserve>().size() == 1);
}

TEST_CASE("scheduler: no request is preempted before an admission is answered, and then at once",
          "[core]") {
  machine_alone a(roomy_limits());
  start_two(a);
  a.send(make_submit(3, 10, 200));
  REQUIRE(a.m.state_of(request_id{3}) == request_state::awaiting_grant);
  a.send(granted{{request_id{1}, 1}, {20}, 0});
  a.send(granted{{request_id{2}, 1}, {21}, 0});
  for (int i = 0; i < 8; ++i) a.step();
  a.send(denied{{request_id{1}, 1}});
  REQUIRE(a.sent<violation>().empty());
  while (a.m.step_in_flight()) {
    a.step();
    CHECK(a.sent<preempted>().empty());
  }
  CHECK(a.m.state_of(request_id{1}) == request_state::decoding);
  a.send(denied{{request_id{3}, 1}});
  REQUIRE(a.sent<preempted>().size() == 1);
  CHECK(a.sent<preempted>()[0].request == request_id{2});
  REQUIRE(a.sent<release>().size() == 1);
  CHECK(a.sent<release>()[0].preempted);
  CHECK_FALSE(a.sent<release>()[0].forget);
  REQUIRE(a.sent<reserve>().size() == 1);  // behind the release, without waiting for its answer
  CHECK(a.sent<reserve>()[0].lease.request == request_id{1});
}

TEST_CASE(
    "scheduler: a request that lacks a block reserves again as soon as the last of the others "
    "leaves",
    "[core]") {
  machine_alone a(roomy_limits());
  start_two(a);
  a.send(granted{{request_id{1}, 1}, {20}, 0});
  a.send(granted{{request_id{2}, 1}, {21}, 0});
  for (int i = 0; i < 8; ++i) a.step();
  a.send(denied{{request_id{1}, 1}});
  for (int i = 8; i < 22; ++i) a.step();
  a.send(cancel{request_id{2}, end_reason::cancelled, 0});
  a.step();
  REQUIRE(a.m.state_of(request_id{2}) == request_state::gone);
  REQUIRE(a.m.state_of(request_id{1}) == request_state::decoding);
  REQUIRE(a.sent<reserve>().size() == 1);
  CHECK(a.sent<reserve>()[0].lease.request == request_id{1});
}
