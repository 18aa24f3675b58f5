// What tails report and who they wait for: each case stands for planted faults (tests/sim/mutants)
// that all others let pass.
#include <catch2/catch.hpp>

#include "tests/actors/core/machine_alone.hpp"

using namespace troupe::core;
using namespace troupe::core::testing;

namespace {

/// A prompt of 40 tokens takes three steps.
scheduler_limits small_steps() {
  auto l = roomy_limits();
  l.max_num_batched_tokens = 16;
  return l;
}

/// Request 9, which came first, is denied a block; a group of three gives way in mid-prompt.
void preempt_leader(machine_alone& a) {
  a.send(make_submit(8, 5, 4));  // beside it, since alone it may not be denied
  a.send(granted{{request_id{8}, 1}, {0}, 0});
  a.send(make_submit(9, 15, 40));
  a.send(granted{{request_id{9}, 1}, {1}, 0});
  a.send(group_of(3, 60, 4));
  a.send(granted{{request_id{1}, 1}, {3, 4, 5, 6}, 0});
  a.send(denied{{request_id{9}, 1}});
  for (int step = 0; step < 3; ++step) {
    REQUIRE(a.sent<preempted>().empty());
    a.step();
  }
  REQUIRE(a.sent<preempted>().size() == 1);
  REQUIRE(a.sent<preempted>()[0].request == request_id{1});
}

}  // namespace

TEST_CASE("forks: a tail's times are the leader's: in the queue until the grant, then the prompt",
          "[core]") {
  machine_alone a(small_steps());
  a.send(group_of(2, 40, 1));
  a.now = 2000;
  a.send(granted{{request_id{1}, 1}, {3, 4, 5}, 0});
  for (const time_us now : {5000, 6000, 9000}) {
    a.now = now;
    a.step();
  }
  const auto ends = a.sent<ended>();
  REQUIRE(ends.size() == 2);
  for (const auto& end : ends) {
    INFO("answer " << end.request.value);
    CHECK(end.times.queue_us == 1000);
    CHECK(end.times.prefill_us == 7000);
    CHECK(end.times.first_token_us == 8000);
  }
}

TEST_CASE("forks: the queue was over for a tail when its first leader had blocks", "[core]") {
  machine_alone a(small_steps());
  a.send(group_of(3, 40, 4));
  a.now = 2000;
  a.send(granted{{request_id{1}, 1}, {3, 4, 5}, 0});
  a.send(cancel{request_id{1}, end_reason::client_gone, 0});
  a.step();
  REQUIRE(a.sent<reserve>().size() == 1);  // request 2 leads
  a.now = 9000;
  a.send(granted{{request_id{2}, 1}, {6, 7, 8}, 0});
  REQUIRE(a.m.state_of(request_id{3}) == request_state::awaiting_fork);
  a.send(cancel{request_id{3}, end_reason::client_gone, 0});
  REQUIRE(a.sent<ended>().size() == 1);
  CHECK(a.sent<ended>()[0].times.queue_us == 1000);
}

TEST_CASE("forks: a tail reports the tokens that its leader found in the prefix cache", "[core]") {
  machine_alone a(roomy_limits());
  a.send(group_of(2, 20, 1));
  a.send(granted{{request_id{1}, 1}, {3, 4}, 1});
  a.step();
  REQUIRE(a.sent<tokens_out>().size() == 2);
  for (const auto& told : a.sent<tokens_out>()) CHECK(told.cached_tokens == 16);
  REQUIRE(a.sent<ended>().size() == 2);
  for (const auto& end : a.sent<ended>()) CHECK(end.cached_tokens == 16);
}

TEST_CASE("forks: a fork that is granted another number of blocks breaks a rule", "[core]") {
  const auto violations_after = [](std::vector<block_id> blocks) {
    machine_alone a(roomy_limits());
    a.send(group_of(2, 20, 9));
    a.send(granted{{request_id{1}, 1}, {3, 4}, 0});
    a.step();
    REQUIRE(a.sent<fork_lease>().size() == 1);
    a.send(granted{a.sent<fork_lease>()[0].child, std::move(blocks), 1, {4}});
    return a.sent<violation>().size();
  };
  CHECK(violations_after({3, 7}) == 0);
  CHECK(violations_after({3}) == 1);
  CHECK(violations_after({3, 7, 8}) == 1);
}

TEST_CASE("forks: a newcomer is admitted where seats for the tails are left", "[core]") {
  auto limits = small_steps();
  limits.max_num_seqs = 4;
  machine_alone a(limits);
  a.send(group_of(3, 40, 4));
  a.send(granted{{request_id{1}, 1}, {3, 4, 5}, 0});
  a.send(make_submit(8, 20, 4));
  CHECK(a.m.state_of(request_id{8}) == request_state::awaiting_grant);
  a.send(granted{{request_id{8}, 1}, {6, 7}, 0});
  a.send(make_submit(9, 20, 4));  // the last two seats are the tails'
  CHECK(a.m.state_of(request_id{9}) == request_state::queued);
}

TEST_CASE("forks: a leader that is preempted before its first token is computed again", "[core]") {
  machine_alone a(small_steps());
  preempt_leader(a);
  CHECK(a.m.state_of(request_id{1}) == request_state::awaiting_recompute);
  CHECK(a.m.state_of(request_id{2}) == request_state::awaiting_fork);
}

TEST_CASE("forks: tails do not wait for the copy of a leader that is cancelled", "[core]") {
  auto limits = small_steps();
  limits.park = true;
  limits.max_num_batched_tokens = 32;  // a block of the leader's prompt is computed
  machine_alone a(limits);
  preempt_leader(a);
  REQUIRE(a.m.state_of(request_id{1}) == request_state::moving_out);
  REQUIRE(a.m.state_of(request_id{2}) == request_state::awaiting_fork);
  a.send(cancel{request_id{1}, end_reason::client_gone, 0});
  CHECK(a.m.state_of(request_id{1}) == request_state::retiring);
  CHECK(a.m.state_of(request_id{2}) == request_state::queued);
  CHECK(a.m.state_of(request_id{3}) == request_state::awaiting_fork);
}
