// Deadlines as moments; who uses them is tested with prompt_reading and the scheduler.
#include "actors/core/deadline.hpp"

#include <catch2/catch.hpp>

#include "actors/core/scheduler_machine.hpp"
#include "tests/actors/core/scheduler_world.hpp"

using namespace troupe::core;

TEST_CASE("deadline: a request's own replaces the configured one, each for itself", "[core]") {
  const auto due = deadlines_from(500, {0, 7, 0}, {1, 2, 0});
  CHECK(due == deadline_times{500 + 1'000, 500 + 7'000, never});
}

TEST_CASE("deadline: one that no clock reaches is none", "[core]") {
  constexpr auto longest = static_cast<std::uint64_t>(never - 500) / 1000;
  CHECK(deadlines_from(500, {longest, 0, 0}, {}).queue ==
        500 + static_cast<time_us>(longest) * 1000);
  CHECK(deadlines_from(500, {longest + 1, ~std::uint64_t{0}, 0}, {}) == deadline_times{});
}

TEST_CASE("deadline: what is over depends on how far the request has come", "[core]") {
  const deadline_times due{10, 20, 30};
  using progress = deadline_progress;
  struct row {
    progress at;
    time_us now;
    std::optional<end_reason> over;
    time_us next;
  };
  const row rows[] = {
      {{}, 9, std::nullopt, 10},
      {{}, 10, end_reason::queue_timeout, 10},
      {{true, false}, 19, std::nullopt, 20},
      {{true, false}, 20, end_reason::first_token_timeout, 20},
      {{true, true}, 29, std::nullopt, 30},
      {{true, true}, 30, end_reason::total_timeout, 30},
  };
  for (const auto& [at, now, over, next] : rows) {
    INFO("granted " << at.granted << ", first token " << at.first_token << ", at " << now);
    CHECK(due.overdue(at, now) == over);
    CHECK(due.next(at) == next);
  }
}

TEST_CASE("scheduler: deadlines count from the moment the session began to read the prompt",
          "[core]") {
  scheduler_machine machine(testing::roomy_limits());
  auto submit = testing::make_submit(1, 3, 50);
  submit.deadlines.total = 10;
  submit.received_at = 1'000;
  effects out;
  machine.on(submit, 9'000, out);
  const auto ends_at = [&](time_us now) {
    out.clear();
    machine.on(tick{}, now, out);
    return std::any_of(out.begin(), out.end(),
                       [](const effect& x) { return std::holds_alternative<ended>(x); });
  };
  CHECK_FALSE(ends_at(10'999));
  CHECK(ends_at(11'000));
}
