// Rules of the scheduler for those who run: each case stands for planted faults
// (tests/sim/mutants) that all others let pass.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/actors/core/machine_alone.hpp"

using namespace troupe::core;
using namespace troupe::core::testing;
using troupe::token_id;

TEST_CASE("scheduler: end tokens and stop tokens are found in whatever order they are given",
          "[core]") {
  auto limits = roomy_limits();
  limits.end_tokens = {900, 0};
  scheduler_world w(limits);
  w.end_token_every = 1;
  w.send(make_submit(1, 10, 5));
  w.run();
  CHECK(w.client(1).end.why == end_reason::end_token);

  auto s = make_submit(2, 10, 5);
  s.decode.ignore_eos = true;
  s.decode.stop_token_ids = {900, 0};
  w.send(s);
  w.run();
  CHECK(w.client(2).end.why == end_reason::stop_token);
  CHECK(w.client(2).end.stop_token == 0);
  w.require_whole();
}

TEST_CASE("scheduler: an audit is due exactly a second after the last one", "[core]") {
  machine_alone a(roomy_limits());
  a.now = 0;
  a.send(make_submit(1, 10, 200));
  a.send(tick{});
  CHECK(a.sent<audit>().size() == 1);
  a.now = 999'999;
  a.send(tick{});
  CHECK(a.sent<audit>().empty());
  a.now = 1'000'000;
  a.send(tick{});
  CHECK(a.sent<audit>().size() == 1);
}

TEST_CASE("scheduler: a second drain is counted and ends nothing twice", "[core]") {
  machine_alone a(roomy_limits());
  a.send(drain{});
  CHECK(a.sent<stopped>().size() == 1);
  CHECK(a.m.ignored_events() == 0);
  a.send(drain{});
  CHECK(a.sent<stopped>().empty());
  CHECK(a.m.ignored_events() == 1);
}

TEST_CASE("scheduler: a release says whether what its request cached goes with it", "[core]") {
  const auto forgets = [](bool keep, const auto& end) {
    machine_alone a(roomy_limits());
    auto s = make_submit(1, 40, 200);
    s.keep_prefix = keep;
    a.send(s);
    a.send(granted{{request_id{1}, 1}, {1, 2, 3}, 0});
    effects told;
    end(a, told);
    const auto found = all<release>(told);
    REQUIRE(found.size() == 1);
    CHECK_FALSE(found[0].preempted);
    return found[0].forget;
  };
  const auto leave = [](end_reason why) {
    return [why](machine_alone& a, effects& told) {
      a.send(cancel{request_id{1}, why, 0});
      a.m.on(
          step_done{step_id{1}, {{request_id{1}, false, troupe::scored_token{5, -1, {}}, {}}}, 10},
          a.now, told);
    };
  };
  const auto fail = [](machine_alone& a, effects& told) {
    a.m.on(step_failed{step_id{1}, "x"}, a.now, told);
  };
  const auto nonsense = [](machine_alone& a, effects& told) {
    a.m.on(step_done{step_id{1}, {{request_id{1}, true, {}, {}}}, 10}, a.now, told);
  };
  CHECK(forgets(false, leave(end_reason::client_gone)));
  CHECK_FALSE(forgets(true, leave(end_reason::client_gone)));
  CHECK_FALSE(forgets(false, leave(end_reason::cancelled)));
  CHECK_FALSE(forgets(true, leave(end_reason::cancelled)));
  CHECK(forgets(true, fail));
  CHECK(forgets(true, nonsense));
}

TEST_CASE("scheduler: no salt and an empty one are different scopes for the allocator", "[core]") {
  machine_alone a(roomy_limits());
  auto s = make_submit(1, 10, 5);
  a.send(s);
  REQUIRE(a.sent<reserve>().size() == 1);
  CHECK_FALSE(a.sent<reserve>()[0].prefix->scope.salt);
  machine_alone b(roomy_limits());
  s.cache_salt = "";
  b.send(s);
  REQUIRE(b.sent<reserve>().size() == 1);
  CHECK(b.sent<reserve>()[0].prefix->scope.salt == "");
}

TEST_CASE(
    "scheduler: only a slow reader's end speaks of the reader, and a limit of one microsecond is "
    "one",
    "[core]") {
  auto limits = roomy_limits();
  limits.stall_limit_us = 1;
  machine_alone a(limits);
  auto s = make_submit(1, 10, 5);
  s.deadlines.queue = 1;
  a.send(s);
  a.send(make_submit(2, 10, 5));
  a.send(reader_stalled{request_id{2}});
  a.send(tick{});
  CHECK(a.sent<ended>().empty());
  a.now += 1;
  a.send(tick{});
  REQUIRE(a.sent<ended>().size() == 1);
  CHECK(a.sent<ended>()[0].why == end_reason::slow_reader);
  CHECK(a.sent<ended>()[0].message != "");
  a.now += 1000;
  a.send(tick{});
  REQUIRE(a.sent<ended>().size() == 1);
  CHECK(a.sent<ended>()[0].why == end_reason::queue_timeout);
  CHECK(a.sent<ended>()[0].message == "");
}

TEST_CASE(
    "scheduler: nothing is at rest while a step is in flight, even when every request waits for "
    "its reader",
    "[core]") {
  machine_alone a(roomy_limits());
  start_one(a, make_submit(1, 10, 200));
  a.send(reader_stalled{request_id{1}});
  REQUIRE(a.m.step_in_flight());
  CHECK_FALSE(a.m.at_rest());
  a.send(step_done{step_id{1}, {token_for(1, 5)}, 10});
  CHECK(a.m.at_rest());
}

TEST_CASE("scheduler: every prompt token is checked, 0 is valid, and without a vocabulary all are",
          "[core]") {
  const auto refused_because = [](std::vector<token_id> prompt, std::uint32_t vocab) {
    auto limits = roomy_limits();
    limits.vocab = vocab;
    machine_alone a(limits);
    auto s = make_submit(1, 10, 5);
    s.prompt = std::move(prompt);
    a.send(s);
    const auto no = a.sent<refused>();
    return no.empty() ? refusal::none : no[0].why;
  };
  CHECK(refused_because({-1, 5}, 1000) == refusal::invalid_token);
  CHECK(refused_because({5, 1000}, 1000) == refusal::invalid_token);
  CHECK(refused_because({0, 999}, 1000) == refusal::none);
  CHECK(refused_because({0, 1}, 1) == refusal::invalid_token);
  CHECK(refused_because({5, 70'000}, 0) == refusal::none);
  CHECK(refused_because({5, -1}, 0) == refusal::invalid_token);
}

TEST_CASE("scheduler: without prefix caching no prefix is looked up or published", "[core]") {
  auto limits = roomy_limits();
  limits.prefix_caching = false;
  machine_alone a(limits);
  a.send(make_submit(1, 20, 7));
  REQUIRE(a.sent<reserve>().size() == 1);
  CHECK_FALSE(a.sent<reserve>()[0].prefix);
  a.send(granted{{request_id{1}, 1}, {1, 2}, 0});
  a.send(step_done{step_id{1}, {token_for(1, 5)}, 10});
  CHECK(a.sent<publish>().empty());
}

TEST_CASE("scheduler: every event checks the deadlines, also late and unknown ones", "[core]") {
  const auto ends_late = [](const auto& event) {
    machine_alone a(roomy_limits());
    auto s = make_submit(1, 10, 50);
    s.deadlines.total = 1;
    start_one(a, s);
    a.send(step_done{step_id{1}, {token_for(1, 5)}, 10});
    a.send(step_failed{step_id{1}, "late"});
    a.now += 2000;
    a.send(event);
    return a.m.state_of(request_id{1}) == request_state::retiring;
  };
  const lease_id nobody{request_id{9}, 1};
  CHECK(ends_late(make_submit(2, 0, 5)));
  CHECK(ends_late(make_submit(2, 10, 5)));
  CHECK(ends_late(cancel{request_id{9}, end_reason::cancelled, 0}));
  CHECK(ends_late(reader_stalled{request_id{9}}));
  CHECK(ends_late(reader_resumed{request_id{9}}));
  CHECK(ends_late(granted{nobody, {}, 0}));
  CHECK(ends_late(denied{nobody}));
  CHECK(ends_late(released{nobody, 0}));
  CHECK(ends_late(lost{1}));
  CHECK(ends_late(moved{move_id{9}, move_outcome::ok}));
  CHECK(ends_late(step_done{step_id{1}, {}, 10}));
  CHECK(ends_late(step_failed{step_id{1}, "late"}));
  CHECK(ends_late(tick{}));
  CHECK(ends_late(drain{}));
}

TEST_CASE("scheduler: late events and events of unknown requests are counted, each once",
          "[core]") {
  machine_alone a(roomy_limits());
  start_one(a, make_submit(1, 10, 50));
  const lease_id nobody{request_id{9}, 1};
  std::uint64_t count = 0;
  const auto counts = [&](const auto& event) {
    a.send(event);
    return a.m.ignored_events() == ++count;
  };
  CHECK(counts(make_submit(1, 10, 5)));
  CHECK(counts(cancel{request_id{9}, end_reason::cancelled, 0}));
  CHECK(counts(reader_stalled{request_id{9}}));
  CHECK(counts(reader_resumed{request_id{1}}));
  CHECK(counts(granted{nobody, {}, 0}));
  CHECK(counts(denied{nobody}));
  CHECK(counts(moved{move_id{9}, move_outcome::ok}));
  CHECK(counts(step_done{step_id{7}, {token_for(1, 5)}, 10}));
  CHECK(counts(step_failed{step_id{7}, "late"}));
  a.send(released{nobody, 0});
  a.send(tick{});
  CHECK(a.m.ignored_events() == count);
}

TEST_CASE("scheduler: a deadline beyond the end of time is none", "[core]") {
  for (const auto ms : {static_cast<std::uint64_t>(never) / 1000, ~std::uint64_t{0}}) {
    machine_alone a(roomy_limits());
    auto s = make_submit(1, 10, 50);
    s.deadlines.total = ms;
    a.send(s);
    a.now = 1'000'000'000'000;
    a.send(tick{});
    CHECK(a.m.state_of(request_id{1}) == request_state::awaiting_grant);
  }
}

TEST_CASE("scheduler: the last token says whether it is text", "[core]") {
  for (const token_id last : {token_id{0}, token_id{7}, token_id{8}}) {
    machine_alone a(roomy_limits());
    auto s = make_submit(1, 10, 2);
    s.decode.stop_token_ids = {7};
    start_one(a, s);
    a.send(step_done{step_id{1}, {token_for(1, 42)}, 10});
    REQUIRE(a.sent<tokens_out>().size() == 1);
    CHECK_FALSE(a.sent<tokens_out>()[0].is_end);
    a.send(step_done{step_id{2}, {token_for(1, last)}, 10});
    REQUIRE(a.sent<tokens_out>().size() == 1);
    CHECK(a.sent<tokens_out>()[0].is_end == (last != 8));
    CHECK(a.sent<ended>().size() == 1);
  }
}

TEST_CASE(
    "scheduler: each deadline ends at its moment and not before, a request's own before the "
    "default",
    "[core]") {
  struct one {
    end_reason why;
    std::uint64_t deadlines_ms::*which;
  };
  for (const auto& [why, which] : {one{end_reason::queue_timeout, &deadlines_ms::queue},
                                   one{end_reason::first_token_timeout, &deadlines_ms::first_token},
                                   one{end_reason::total_timeout, &deadlines_ms::total}}) {
    for (const bool own : {false, true}) {
      auto limits = roomy_limits();
      limits.deadlines.*which = own ? 70 : 20;
      machine_alone a(limits);
      auto s = make_submit(1, 10, 50);
      if (own) s.deadlines.*which = 20;
      a.send(s);
      a.now += 19'999;
      a.send(tick{});
      CHECK(a.sent<ended>().empty());
      a.now += 1;
      a.send(tick{});
      REQUIRE(a.sent<ended>().size() == 1);
      const auto e = a.sent<ended>()[0];
      CHECK(e.why == why);
      CHECK(e.times.queue_us == 20'000);
      CHECK(e.times.total_us == 20'000);
      CHECK(e.times.prefill_us + e.times.first_token_us + e.times.decode_us == 0);
    }
  }
}

TEST_CASE("scheduler: a deadline that was met is none any more", "[core]") {
  machine_alone a(roomy_limits());
  auto s = make_submit(1, 10, 50);
  s.deadlines = {20, 20, 0};
  start_one(a, s);
  a.send(step_done{step_id{1}, {token_for(1, 5)}, 10});
  a.now += 20'000;
  a.send(tick{});
  CHECK(a.m.state_of(request_id{1}) == request_state::decoding_in_flight);
}
