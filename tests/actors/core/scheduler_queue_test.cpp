// Waiting and leaving: queue order and limits, cancels in the queue, deadlines, drain, audits.
#include <catch2/catch.hpp>

#include "tests/actors/core/scheduler_world.hpp"

using namespace troupe::core;
using namespace troupe::core::testing;

namespace {

scheduler_limits one_seat() {
  auto l = roomy_limits();
  l.max_num_seqs = 1;
  return l;
}

}  // namespace

TEST_CASE("scheduler: C001 a queued request whose client left never enters a step", "[core]") {
  scheduler_world w(one_seat());
  w.send(make_submit(1, 10, 300));
  w.settle_allocator();
  w.finish_step();
  w.send(make_submit(2, 10, 256));
  REQUIRE(w.machine.waiting() == 1);
  w.cancel(2);
  CHECK(w.machine.waiting() == 0);
  CHECK(w.client(2).ended == 1);
  CHECK(w.client(2).end.phase == life_phase::queued);
  CHECK(w.sent<release>().empty());
  w.send(make_submit(3, 10, 5));
  bool third_seen = false;
  while (w.in_flight()) {
    REQUIRE_FALSE(w.planned(2));
    third_seen = third_seen || w.planned(3);
    w.finish_step();
    w.settle_allocator();
  }
  CHECK(third_seen);
  CHECK(w.client(2).tokens.empty());
  CHECK(w.client(3).end.why == end_reason::length);
  w.require_whole();
}

TEST_CASE("scheduler: C002 three of five queued requests leave at once, the others run in order",
          "[core]") {
  scheduler_world w(one_seat());
  for (std::uint64_t id = 1; id <= 6; ++id) w.send(make_submit(id, 10, 4));
  w.settle_allocator();
  REQUIRE(w.machine.waiting() == 5);
  for (const std::uint64_t id : {3, 4, 5}) w.cancel(id);
  CHECK(w.machine.waiting() == 2);
  std::vector<std::uint64_t> order;
  while (w.in_flight()) {
    const auto id = w.plan().items.at(0).request.value;
    if (order.empty() || order.back() != id) order.push_back(id);
    w.finish_step();
    w.settle_allocator();
  }
  CHECK(order == std::vector<std::uint64_t>{1, 2, 6});
  int cancelled = 0;
  for (const auto& [id, c] : w.clients) cancelled += c.end.why == end_reason::client_gone ? 1 : 0;
  CHECK(cancelled == 3);
  w.require_whole();
}

TEST_CASE(
    "scheduler: deadlines strike on any event, and the defaults apply when the request has none",
    "[core]") {
  auto limits = one_seat();
  limits.deadlines = {50, 0, 0};
  scheduler_world w(limits);
  auto first = make_submit(1, 10, 100);
  first.deadlines = {0, 0, 500};
  w.send(first);
  w.send(make_submit(2, 10, 5));
  w.settle_allocator();
  w.now += 49'999;
  w.send(tick{});
  CHECK(w.client(2).ended == 0);
  w.now += 1;
  w.send(released{lease_id{request_id{9}, 1}, 0});
  CHECK(w.client(2).end.why == end_reason::queue_timeout);
  w.now += 450'000;
  w.send(tick{});
  CHECK(w.state(1) == request_state::retiring);
  w.run();
  CHECK(w.client(1).end.why == end_reason::total_timeout);
  w.require_whole();
}

TEST_CASE("scheduler: drain refuses newcomers, lets the others finish, then reports stopped once",
          "[core]") {
  scheduler_world w(one_seat());
  w.send(make_submit(1, 10, 3));
  w.send(make_submit(2, 10, 3));
  w.send(drain{});
  w.send(make_submit(3, 10, 3));
  CHECK(w.client(3).refusal.why == refusal::draining);
  w.run();
  CHECK(w.client(1).tokens.size() == 3);
  CHECK(w.client(2).tokens.size() == 3);
  CHECK(w.stops == 1);
  w.send(drain{});
  w.send(tick{});
  CHECK(w.stops == 1);
  w.require_whole();
}

TEST_CASE("scheduler: an idle machine drains at once, and audits once per busy spell", "[core]") {
  scheduler_world w(roomy_limits());
  w.send(tick{});
  CHECK(w.audits == 0);
  w.send(make_submit(1, 10, 3));
  w.run();
  w.send(tick{});
  CHECK(w.audits == 1);
  w.send(drain{});
  CHECK(w.stops == 1);
}

TEST_CASE("scheduler: a busy machine audits with its ticks, at most once a second", "[core]") {
  scheduler_world w(roomy_limits());
  w.send(make_submit(1, 10, 1000));
  w.settle_allocator();
  for (int i = 0; i < 40; ++i) {
    w.now += 50'000;
    w.send(tick{});
  }
  CHECK(w.audits == 2);
}

TEST_CASE("scheduler: priority goes first, then arrival; a queue over its limit refuses",
          "[core]") {
  auto limits = one_seat();
  limits.max_num_queued_reqs = 3;
  scheduler_world w(limits);
  w.send(make_submit(1, 10, 3));
  w.settle_allocator();
  auto urgent = make_submit(4, 10, 3);
  urgent.priority = -1;
  w.send(make_submit(2, 10, 3));
  w.send(make_submit(3, 10, 3));
  w.send(urgent);
  w.send(make_submit(5, 10, 3));
  CHECK(w.client(5).refusal.why == refusal::queue_full);
  CHECK(w.client(5).refusal.message.find("limit is 3") != std::string::npos);
  std::vector<std::uint64_t> order;
  while (w.in_flight()) {
    const auto id = w.plan().items.at(0).request.value;
    if (order.empty() || order.back() != id) order.push_back(id);
    w.finish_step();
    w.settle_allocator();
  }
  CHECK(order == std::vector<std::uint64_t>{1, 4, 2, 3});
}

TEST_CASE("scheduler: a burst may fill the seats and the queue before any grant comes", "[core]") {
  auto limits = roomy_limits();
  limits.max_num_seqs = 8;
  limits.max_num_queued_reqs = 4;
  scheduler_world w(limits);
  for (std::uint64_t id = 1; id <= 14; ++id) w.send(make_submit(id, 10, 2));
  int refusals = 0;
  for (const auto& [id, c] : w.clients) refusals += c.refused;
  CHECK(refusals == 2);
  w.run();
  w.require_whole();
}

TEST_CASE("scheduler: equal histories give equal machines and hashes, one event makes them differ",
          "[core]") {
  scheduler_world a(roomy_limits()), b(roomy_limits());
  for (auto* w : {&a, &b}) {
    w->send(make_submit(1, 10, 3));
    w->settle_allocator();
    w->finish_step();
  }
  CHECK(a.machine == b.machine);
  const auto digest = [](const scheduler_world& w) {
    state_hash h(w.now);
    w.machine.add_to(h);
    w.ledger.add_to(h);
    return h.digest();
  };
  CHECK(digest(a) == digest(b));
  a.cancel(1);
  CHECK_FALSE(a.machine == b.machine);
  CHECK_FALSE(digest(a) == digest(b));
}

TEST_CASE("scheduler: states that differ in names, counters and the time of day have one digest",
          "[core]") {
  const auto digest_after = [](bool with_past) {
    auto limits = roomy_limits();
    limits.max_step_us =
        10'000'000'000;  // what steps cost is part of the past, unless it decides something
    scheduler_world w(limits);
    if (with_past) {  // other steps, arrivals, blocks and times came before
      auto past = make_submit(1, 20, 5);
      past.cache_salt = "past";
      w.send(past);
      w.run();
      w.now += 7'000'000;
      w.ledger = block_ledger({256, 16, true});
    }
    w.send(make_submit(2, 10, 3));
    w.run_to_rest();
    w.finish_step();
    state_hash h(w.now);
    w.machine.add_to(h);
    w.ledger.add_to(h);
    return h.digest();
  };
  CHECK(digest_after(false) == digest_after(true));
}

TEST_CASE("scheduler: a prompt that is only scored may fill the pool to its last token", "[core]") {
  auto limits = roomy_limits();
  limits.num_blocks = 2;
  scheduler_world w(limits);
  const auto scored = [](std::uint64_t id, std::uint32_t prompt_tokens, std::uint32_t max_tokens) {
    auto s = make_submit(id, prompt_tokens, max_tokens);
    s.score_prompt = true;
    return s;
  };
  w.send(scored(1, 33, 0));
  CHECK(w.client(1).refusal.why == refusal::kv_capacity);
  w.send(scored(2, 32, 1));
  CHECK(w.client(2).refusal.why == refusal::kv_capacity);
  w.send(scored(3, 32, 0));
  w.run();
  CHECK(w.client(3).end.why == end_reason::length);
  CHECK(w.client(3).scores.size() == 31);
  w.require_whole();
}
