// Several answers to one prompt: what the group computes and holds, and that no tail waits for
// something that cannot come.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/actors/core/machine_alone.hpp"

using namespace troupe::core;
using namespace troupe::core::testing;
using troupe::token_id;

namespace {

std::vector<token_id> alone(const submit& group, std::uint32_t answer) {
  auto s = group;
  s.tails.clear();
  s.decode.sampling.seed += answer;
  scheduler_world w(roomy_limits());
  w.send(s);
  w.run();
  return w.client(1).tokens;
}

}  // namespace

TEST_CASE("forks: eight answers compute one prompt, hold it once, and are those they get alone",
          "[core]") {
  const std::uint32_t prompt_tokens = GENERATE(100u, 96u, 5u);  // 16 a block: with and without rest
  const bool caching = GENERATE(true, false);
  auto limits = roomy_limits();
  limits.prefix_caching = caching;
  scheduler_world w(limits);
  const auto group = group_of(8, prompt_tokens, 9);
  w.send(group);
  CHECK(w.machine.waiting() + w.machine.running() == 8);
  w.run_to_rest();
  w.finish_step();  // the prompt
  CHECK(w.computed_tokens == prompt_tokens);
  w.run_to_rest();
  CHECK(w.forks == 7);
  // One prompt and eight tails: full blocks once, then one for each of the eight.
  CHECK(w.ledger.counts().leased == prompt_tokens / 16 + 8);
  w.run();
  CHECK(w.computed_tokens == prompt_tokens + 8 * 8);
  CHECK(w.copies == (prompt_tokens % 16 == 0 ? 0 : 7));
  for (std::uint32_t i = 0; i < 8; ++i) {
    INFO("answer " << i);
    REQUIRE(w.client(1 + i).tokens.size() == 9);
    CHECK(w.client(1 + i).tokens == alone(group, i));
    CHECK(w.client(1 + i).end.prompt_tokens == prompt_tokens);
  }
  w.require_whole();
}

TEST_CASE("forks: answers of one token need no fork", "[core]") {
  scheduler_world w(roomy_limits());
  w.send(group_of(4, 20, 1));
  w.run();
  CHECK(w.forks == 0);
  CHECK(w.computed_tokens == 20);
  for (std::uint64_t id = 1; id <= 4; ++id) CHECK(w.client(id).end.why == end_reason::length);
  w.require_whole();
}

TEST_CASE("forks: a group is admitted or refused as one", "[core]") {
  auto limits = roomy_limits();
  limits.max_num_seqs = 2;
  limits.max_num_queued_reqs = 3;
  scheduler_world w(limits);
  w.send(group_of(6, 20, 4));  // two seats and three places in the queue
  for (std::uint64_t id = 1; id <= 6; ++id) {
    CHECK(w.client(id).refused == 1);
    CHECK(w.client(id).refusal.why == refusal::queue_full);
  }
  auto fits = group_of(5, 20, 4);
  fits.request = request_id{11};
  for (auto& tail : fits.tails) tail.request.value += 10;
  w.send(fits);
  w.run();
  for (std::uint64_t id = 11; id <= 15; ++id) CHECK(w.client(id).tokens.size() == 4);
  w.require_whole();
}

TEST_CASE("forks: a submit that repeats any id of a group is ignored", "[core]") {
  scheduler_world w(roomy_limits());
  const auto group = group_of(3, 20, 4);
  w.send(group);
  w.run_to_rest();
  w.cancel(1);
  const auto ignored = w.machine.ignored_events();
  w.send(group);
  CHECK(w.machine.ignored_events() == ignored + 1);
  w.run();
  CHECK(w.client(2).tokens.size() == 4);
  CHECK(w.client(3).tokens.size() == 4);
}

TEST_CASE("forks: whenever and however the leader ends, its tails go on", "[core]") {
  auto limits = roomy_limits();
  limits.max_num_batched_tokens = 16;  // the prompt takes three steps
  const int steps_before = GENERATE(0, 1, 2, 3, 4);
  const int how = GENERATE(0, 1, 2, 3);
  scheduler_world w(limits);
  const auto group = group_of(3, 40, 6);
  w.send(group);
  w.run_to_rest();
  for (int i = 0; i < steps_before; ++i) {
    w.finish_step();
    w.run_to_rest();
  }
  if (how == 0) w.cancel(1);
  if (how == 1) w.cancel(1, end_reason::session_crash);
  if (how == 2) w.poisoned.insert(request_id{1});
  if (how == 3) {
    if (steps_before > 2) return;  // by then the step names the others too
    w.break_step();
  }
  w.run();
  for (std::uint32_t i = 1; i < 3; ++i) {
    INFO("answer " << i << ", " << steps_before << " steps before, end " << how);
    CHECK(w.client(1 + i).tokens == alone(group, i));
  }
  w.require_whole();
}

TEST_CASE("forks: a leader cancelled while its last row runs still forks, then gives back",
          "[core]") {
  scheduler_world w(roomy_limits());
  const auto group = group_of(2, 40, 6);
  w.send(group);
  w.run_to_rest();
  REQUIRE(w.planned(1));
  w.cancel(1);
  CHECK(w.state(1) == request_state::retiring);
  w.finish_step();
  CHECK(w.sent<fork_lease>().size() == 1);
  REQUIRE(w.sent<release>().size() == 1);
  CHECK(w.state(2) == request_state::forking);
  w.run();
  CHECK(w.computed_tokens == 40 + 5);
  CHECK(w.client(2).tokens == alone(group, 1));
  w.require_whole();
}

TEST_CASE("forks: a denied fork and a missing seat leave a tail with its token", "[core]") {
  auto limits = roomy_limits();
  const bool denied = GENERATE(true, false);
  if (!denied) limits.max_num_seqs = 2;
  scheduler_world w(limits);
  if (denied) w.deny_fork = [](const fork_lease& ask) { return ask.child.request.value == 3; };
  const auto group = group_of(3, 40, 6);
  w.send(group);
  w.run_to_rest();
  w.finish_step();
  w.settle_allocator();
  CHECK(w.state(3) == request_state::awaiting_recompute);
  CHECK(w.client(3).tokens.size() == 1);
  w.run();
  for (std::uint32_t i = 0; i < 3; ++i) CHECK(w.client(1 + i).tokens == alone(group, i));
  w.require_whole();
}

TEST_CASE("forks: newcomers leave the seats that a running leader's tails will need", "[core]") {
  auto limits = roomy_limits();
  limits.max_num_seqs = 3;
  limits.max_num_batched_tokens = 16;
  scheduler_world w(limits);
  w.send(group_of(3, 40, 6));
  w.run_to_rest();
  w.send(make_submit(9, 20, 6));
  w.run_to_rest();
  CHECK(w.state(9) == request_state::queued);
  while (w.state(2) == request_state::awaiting_fork) {
    w.finish_step();
    w.run_to_rest();
  }
  CHECK(w.forks == 2);
  w.run();
  CHECK(w.client(9).tokens.size() == 6);
  w.require_whole();
}

TEST_CASE("forks: nobody waits for a leader whose reader has stalled", "[core]") {
  auto limits = roomy_limits();
  limits.max_num_batched_tokens = 16;
  scheduler_world w(limits);
  const auto group = group_of(3, 40, 6);
  w.send(group);
  w.run_to_rest();
  w.send(reader_stalled{request_id{1}});
  w.run();
  CHECK(w.state(1) == request_state::paused);
  CHECK(w.client(2).tokens == alone(group, 1));
  CHECK(w.client(3).tokens == alone(group, 2));
  w.resume_all();
  w.run();
  CHECK(w.client(1).tokens == alone(group, 0));
  w.require_whole();
}

TEST_CASE("forks: a tail that ends while it waits leaves the others alone", "[core]") {
  scheduler_world w(roomy_limits());
  const auto group = group_of(3, 40, 6);
  w.send(group);
  w.run_to_rest();
  w.cancel(2);
  CHECK(w.client(2).ended == 1);
  CHECK(w.client(2).end.phase == life_phase::prefill);
  w.run();
  CHECK(w.client(2).tokens.empty());
  CHECK(w.client(1).tokens == alone(group, 0));
  CHECK(w.client(3).tokens == alone(group, 2));
  w.require_whole();
}

TEST_CASE("forks: a forked request preempted before its copy computes the rest again", "[core]") {
  auto limits = roomy_limits();
  limits.num_blocks = 8;
  limits.model_context = 128;
  limits.park = GENERATE(true, false);
  scheduler_world w(limits);
  const auto group = group_of(3, 40, 60);
  w.send(group);
  w.run();
  CHECK(w.preemptions > 0);
  for (std::uint32_t i = 0; i < 3; ++i) CHECK(w.client(1 + i).tokens == alone(group, i));
  w.require_whole();
}

TEST_CASE("forks: every answer gets the prompt's scores, whoever computes them", "[core]") {
  auto limits = roomy_limits();
  limits.max_num_batched_tokens = 16;
  const std::uint32_t max_tokens = GENERATE(4u, 0u);
  const int cancel_after = GENERATE(-1, 1, 2);
  scheduler_world w(limits);
  auto group = group_of(3, 40, max_tokens);
  group.score_prompt = true;
  w.send(group);
  w.run_to_rest();
  for (int i = 0; i < cancel_after; ++i) {
    w.finish_step();
    w.run_to_rest();
  }
  if (cancel_after > 0) w.cancel(1);
  w.run();
  const std::vector<token_id> scores(group.prompt.begin() + 1, group.prompt.end());
  for (std::uint64_t id = cancel_after > 0 ? 2 : 1; id <= 3; ++id) {
    CHECK(w.client(id).scores == scores);
    CHECK(w.client(id).tokens.size() == max_tokens);
  }
  if (cancel_after < 0) CHECK(w.computed_tokens == 40 + 3 * (max_tokens > 0 ? max_tokens - 1 : 0));
  w.require_whole();
}

TEST_CASE("forks: a copy is asked for once, and its source goes back when it is made", "[core]") {
  machine_alone a(roomy_limits());
  a.send(group_of(2, 20, 9));
  a.send(granted{{request_id{1}, 1}, {3, 4}, 0});
  REQUIRE(a.plan.items.size() == 1);
  CHECK(a.plan.items[0].tails == std::vector<tail_of>{{request_id{2}, 101}});
  a.step();
  REQUIRE(a.sent<fork_lease>().size() == 1);
  const auto ask = a.sent<fork_lease>()[0];
  CHECK(ask == fork_lease{{request_id{1}, 1}, {request_id{2}, 1}, 1, true, 1});
  a.send(granted{ask.child, {3, 7}, 1, {4}});
  CHECK(a.sent<step_plan>().empty());  // the leader's step runs
  a.step();
  REQUIRE(a.plan.items.size() == 2);
  CHECK(a.plan.items[0].copy_from.empty());
  CHECK(a.plan.items[1].copy_from == std::vector<block_id>{4});
  CHECK(a.plan.items[1].start == 20);
  CHECK(a.plan.items[1].blocks == std::vector<block_id>{3, 7});
  CHECK(a.sent<drop_source>().empty());
  a.step();
  REQUIRE(a.sent<drop_source>().size() == 1);
  CHECK(a.sent<drop_source>()[0].lease == ask.child);
  CHECK(a.plan.items[1].copy_from.empty());
  a.step();
  CHECK(a.sent<drop_source>().empty());
}

TEST_CASE("forks: a step that leaves out a tail broke a rule, and the tail goes on", "[core]") {
  machine_alone a(roomy_limits());
  a.send(group_of(2, 20, 9));
  a.send(granted{{request_id{1}, 1}, {3, 4}, 0});
  a.send(step_done{a.plan.step, {token_for(1, 5)}, 10});
  CHECK(a.sent<violation>().size() == 1);
  CHECK(a.m.state_of(request_id{2}) == request_state::awaiting_grant);
}

TEST_CASE("forks: a tail that is gone gets nothing from the step that names it", "[core]") {
  machine_alone a(roomy_limits());
  a.send(group_of(2, 20, 9));
  a.send(granted{{request_id{1}, 1}, {3, 4}, 0});
  a.send(cancel{request_id{2}, end_reason::client_gone, 0});
  CHECK(a.sent<ended>().size() == 1);
  a.step();
  CHECK(a.sent<violation>().empty());
  CHECK(a.sent<fork_lease>().empty());
  CHECK(a.sent<tokens_out>().size() == 1);
}

TEST_CASE("forks: tails go on without a leader whose reader is behind, unless it is in a step",
          "[core]") {
  machine_alone waiting(roomy_limits());
  waiting.send(group_of(2, 20, 4));
  REQUIRE(waiting.m.state_of(request_id{2}) == request_state::awaiting_fork);
  waiting.send(reader_stalled{request_id{1}});
  CHECK(waiting.m.state_of(request_id{2}) != request_state::awaiting_fork);

  machine_alone computing(roomy_limits());
  start_one(computing, group_of(2, 16, 4));
  REQUIRE(computing.m.step_in_flight());
  computing.send(reader_stalled{request_id{1}});
  CHECK(computing.m.state_of(request_id{2}) == request_state::awaiting_fork);
}

TEST_CASE("forks: a tail whose reader has caught up leads, where the leader's is still behind",
          "[core]") {
  machine_alone a(roomy_limits());
  a.send(group_of(3, 20, 4));
  a.send(reader_stalled{request_id{2}});
  a.send(reader_resumed{request_id{2}});  // the leader's reader keeps up: nothing changes
  CHECK(a.m.state_of(request_id{2}) == request_state::awaiting_fork);
  for (const std::uint64_t id : {2, 3, 1}) a.send(reader_stalled{request_id{id}});
  REQUIRE(a.m.state_of(request_id{3}) == request_state::awaiting_fork);
  a.send(reader_resumed{request_id{3}});
  CHECK(a.m.state_of(request_id{3}) != request_state::awaiting_fork);
}

TEST_CASE("forks: of two tails the one whose reader keeps up leads", "[core]") {
  machine_alone a(roomy_limits());
  a.send(group_of(3, 20, 4));
  a.send(reader_stalled{request_id{2}});
  a.send(reader_stalled{request_id{1}});
  CHECK(a.m.state_of(request_id{2}) == request_state::awaiting_fork);
  CHECK(a.m.state_of(request_id{3}) != request_state::awaiting_fork);
}
