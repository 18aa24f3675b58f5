// The life of requests: steps, cancels, results. Waiting is in scheduler_queue_test.cpp, blocks in
// scheduler_pool_test.cpp.
#include "actors/core/scheduler_machine.hpp"

#include <catch2/catch.hpp>

#include "tests/actors/core/scheduler_world.hpp"

using namespace troupe::core;
using namespace troupe::core::testing;

namespace {

// Prompts of 64 go in as chunks of 16.
scheduler_limits small_chunks() {
  auto l = roomy_limits();
  l.max_num_batched_tokens = 16;
  return l;
}

}  // namespace

TEST_CASE("scheduler: a request runs to its length and its numbers add up", "[core]") {
  scheduler_world w(roomy_limits());
  w.send(make_submit(1, 20, 5));
  w.now += 300;
  w.run();
  const auto& c = w.client(1);
  REQUIRE(c.tokens.size() == 5);
  CHECK(c.end.why == end_reason::length);
  CHECK(c.end.prompt_tokens == 20);
  CHECK(c.end.completion_tokens == 5);
  CHECK(c.end.phase == life_phase::decode);
  CHECK(c.end.times.queue_us == 300);
  CHECK(c.end.times.first_token_us == 1300);
  CHECK(c.end.times.prefill_us == 1000);
  CHECK(c.end.times.decode_us == 4000);
  CHECK(c.end.times.total_us == 5300);
  CHECK(w.audits == 1);
  w.require_whole();
}

TEST_CASE(
    "scheduler: C007 a cancel while the last prefill chunk is in flight lets no token through",
    "[core]") {
  scheduler_world w(small_chunks());
  w.send(make_submit(1, 48, 20));
  w.settle_allocator();
  w.finish_step();
  w.settle_allocator();
  w.finish_step();
  w.settle_allocator();
  REQUIRE(w.plan().items.at(0).sample);
  w.cancel(1);
  CHECK(w.sent<release>().empty());
  CHECK(w.state(1) == request_state::retiring);
  w.settle_allocator();
  CHECK(w.blocks_of(1) >= 4);
  w.finish_step();
  CHECK(w.sent<release>().size() == 1);
  CHECK(w.sent<tokens_out>().empty());
  CHECK(w.client(1).end.why == end_reason::client_gone);
  CHECK(w.client(1).end.completion_tokens == 0);
  CHECK(w.client(1).end.phase == life_phase::prefill);
  w.settle_allocator();
  w.require_whole();
}

TEST_CASE("scheduler: C008 two hundred cancels amid prefill leave nothing behind", "[core]") {
  scheduler_world w(small_chunks());
  for (std::uint64_t id = 1; id <= 200; ++id) {
    w.send(make_submit(id, 64, 20));
    w.settle_allocator();
    w.finish_step();
    w.settle_allocator();
    REQUIRE(w.plan().items.at(0).start == 16);
    w.cancel(id, id % 2 ? end_reason::client_gone : end_reason::cancelled);
    if (id % 5 == 0) {
      w.break_step();
    } else {
      w.finish_step();
    }
    w.settle_allocator();
    REQUIRE(w.client(id).ended == 1);
  }
  w.require_whole();
}

TEST_CASE(
    "scheduler: a cancel frees once and only after the step, in every state that holds blocks",
    "[core]") {
  for (int steps_before = 0; steps_before < 6; ++steps_before) {
    INFO("cancel in step " << steps_before + 1);
    scheduler_world w(small_chunks());
    w.send(make_submit(1, 40, 10));
    w.settle_allocator();
    for (int i = 0; i < steps_before; ++i) {
      w.finish_step();
      w.settle_allocator();
    }
    w.cancel(1);
    w.cancel(1, end_reason::cancelled);
    CHECK(w.machine.ignored_events() == 1);
    CHECK(w.blocks_of(1) > 0);
    w.finish_step();
    CHECK(w.sent<release>().size() == 1);
    CHECK_FALSE(w.in_flight());
    w.settle_allocator();
    w.cancel(1);
    CHECK(w.machine.ignored_events() == 2);
    w.require_whole();
  }
}

TEST_CASE("scheduler: a cancel between ask and grant releases behind the reserve", "[core]") {
  for (const bool answered : {false, true}) {
    scheduler_world w(roomy_limits());
    w.send(make_submit(1, 40, 10));
    if (answered) w.allocate_one();  // the grant is on its way
    w.cancel(1);
    CHECK(w.sent<release>().size() == 1);
    CHECK(w.client(1).ended == 1);
    w.settle_allocator();
    w.require_whole();
  }
}

TEST_CASE("scheduler: a cancel seen during step k keeps its request out of step k+1", "[core]") {
  scheduler_world w(roomy_limits());
  w.send(make_submit(1, 10, 50));
  w.send(make_submit(2, 10, 50));
  w.settle_allocator();
  w.finish_step();
  w.settle_allocator();
  w.finish_step();
  REQUIRE(w.planned(1));
  REQUIRE(w.planned(2));
  w.cancel(1);
  w.finish_step();
  CHECK_FALSE(w.planned(1));
  CHECK(w.planned(2));
  w.run();
  CHECK(w.client(2).tokens.size() == 50);
  w.require_whole();
}

TEST_CASE("scheduler: end tokens and stop tokens end, are counted and named", "[core]") {
  scheduler_world probe(roomy_limits());
  probe.send(make_submit(1, 10, 6));
  probe.run();
  const auto third = probe.client(1).tokens.at(2);

  SECTION("a stop token") {
    scheduler_world w(roomy_limits());
    auto s = make_submit(1, 10, 6);
    s.decode.stop_token_ids = {third};
    w.send(s);
    w.run();
    CHECK(w.client(1).tokens.size() == 3);
    CHECK(w.client(1).end.why == end_reason::stop_token);
    CHECK(w.client(1).end.stop_token == third);
  }
  SECTION("an end token") {
    auto limits = roomy_limits();
    limits.end_tokens = {0, third};
    scheduler_world w(limits);
    w.send(make_submit(1, 10, 6));
    w.run();
    CHECK(w.client(1).end.why == end_reason::end_token);
    CHECK(w.client(1).end.completion_tokens == 3);
  }
  SECTION("ignore_eos goes on") {
    auto limits = roomy_limits();
    limits.end_tokens = {0, third};
    scheduler_world w(limits);
    auto s = make_submit(1, 10, 6);
    s.decode.ignore_eos = true;
    w.send(s);
    w.run();
    CHECK(w.client(1).end.why == end_reason::length);
    CHECK(w.client(1).tokens == probe.client(1).tokens);
  }
}

TEST_CASE(
    "scheduler: below min_tokens end and stop tokens are suppressed, with ignore_eos only stops",
    "[core]") {
  for (const bool ignore_eos : {false, true}) {
    scheduler_world w(roomy_limits());
    auto s = make_submit(1, 10, 6);
    s.decode.min_tokens = 2;
    s.decode.stop_token_ids = {77, 55};
    s.decode.ignore_eos = ignore_eos;
    w.send(s);
    w.settle_allocator();
    const auto expected = ignore_eos ? std::vector<troupe::token_id>{55, 77}
                                     : std::vector<troupe::token_id>{55, 77, 0};
    CHECK(w.plan().items.at(0).suppressed == expected);
    w.finish_step();
    CHECK(w.plan().items.at(0).suppressed == expected);
    w.finish_step();
    CHECK(w.plan().items.at(0).suppressed.empty());
    w.run();
    w.require_whole();
  }
}

TEST_CASE("scheduler: bad logits end their request alone", "[core]") {
  scheduler_world w(roomy_limits());
  w.send(make_submit(1, 10, 6));
  w.send(make_submit(2, 10, 6));
  w.settle_allocator();
  w.finish_step();
  w.poisoned.insert(request_id{1});
  w.run();
  CHECK(w.client(1).end.why == end_reason::bad_logits);
  CHECK_FALSE(w.client(1).end.message.empty());
  CHECK(w.client(2).tokens.size() == 6);
  w.require_whole();
}

TEST_CASE("scheduler: a failed step ends the requests it named and no others", "[core]") {
  scheduler_world w(roomy_limits());
  w.send(make_submit(1, 10, 6));
  w.settle_allocator();
  w.send(make_submit(2, 10, 6));
  w.send(make_submit(3, 10, 6));
  w.settle_allocator();
  REQUIRE_FALSE(w.planned(2));
  w.break_step("out of order");
  CHECK(w.client(1).end.why == end_reason::step_failed);
  CHECK(w.client(1).end.message == "out of order");
  w.cancel(2);
  w.break_step();
  CHECK(w.client(2).end.why == end_reason::client_gone);
  CHECK(w.client(3).end.why == end_reason::step_failed);
  w.run();
  w.require_whole();
}

TEST_CASE("scheduler: a step's answer for others than its plan is a violation and fails the step",
          "[core]") {
  scheduler_machine m(roomy_limits());
  effects out;
  m.on(make_submit(1, 10, 6), 0, out);
  m.on(granted{{request_id{1}, 1}, {0}}, 0, out);
  REQUIRE(m.step_in_flight());
  out.clear();
  m.on(step_done{step_id{1}, {}, 10}, 0, out);
  REQUIRE(out.size() >= 3);
  CHECK(std::holds_alternative<violation>(out[0]));
  CHECK(std::holds_alternative<release>(out[1]));
  CHECK(std::get<ended>(out[2]).why == end_reason::step_failed);
  CHECK(m.idle());
}
