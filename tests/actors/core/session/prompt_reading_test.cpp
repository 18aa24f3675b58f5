// The machine that reads prompts: every cell of its table in actors/STATES.md, its places, pauses
// and deadlines.
#include "actors/core/session/prompt_reading.hpp"

#include <catch2/catch.hpp>

#include "actors/core/prompt_length.hpp"
#include "tests/actors/core/state_table.hpp"

using namespace troupe::core;

namespace {

constexpr time_us start = 5'000'000;
constexpr std::uint32_t context = 100;
const std::vector<std::string> states = {"received", "tokenizing", "left"};

reading_limits limits(deadlines_ms own = {}, deadlines_ms configured = {}) {
  return {context, true, own, configured};
}

std::string name_of(prompt_reading::state s) {
  return states[static_cast<std::size_t>(s)];
}

/// A word for the step, as the table has it.
std::string word_of(const reading_step& step) {
  static const char* const words[] = {"nothing", "read_slice", "wait",
                                      "submit",  "refused",    "ended"};
  return words[step.index()];
}

prompt_reading in_state(const std::string& state, reading_places& places) {
  prompt_reading machine(limits({0, 0, 1000}));
  if (state == "received") return machine;
  machine.on_begin(0, start);
  if (state == "left") machine.on_slice({true, 3}, places, start);
  return machine;
}

reading_step fire(prompt_reading& machine, const std::string& event, reading_places& places) {
  const auto late = start + 1'000'000;
  if (event.ends_with("_no_place")) places.taken = places.total;
  if (event == "begin") return machine.on_begin(0, start);
  if (event == "begin_too_long") return machine.on_begin(context, start);
  if (event == "slice_done" || event == "slice_done_no_place")
    return machine.on_slice({false, 7}, places, start + 1);
  if (event == "slice_done_late") return machine.on_slice({false, 7}, places, late);
  if (event == "all_read") return machine.on_slice({true, 7}, places, late);
  if (event == "too_long") return machine.on_slice({false, context}, places, start + 1);
  if (event == "failed") return machine.on_failed(refusal::bad_template, "no", places);
  if (event == "turn" || event == "turn_no_place") return machine.on_turn(places, start + 1);
  if (event == "turn_late") return machine.on_turn(places, late);
  REQUIRE(event == "cancel");
  return machine.on_cancel(end_reason::cancelled, places);
}

}  // namespace

TEST_CASE("prompt_reading: every cell does what the table in actors/STATES.md says", "[core]") {
  const auto rows = testing::state_rows("before the submit");
  REQUIRE(rows.contains("before the submit"));
  const auto& events = rows.at("before the submit");
  REQUIRE(events.size() == 12);
  for (const auto& state : states) {
    REQUIRE(rows.contains(state));
    REQUIRE(rows.at(state).size() == events.size());
    for (std::size_t i = 0; i < events.size(); ++i) {
      INFO(state << " x " << events[i]);
      reading_places places;
      auto machine = in_state(state, places);
      REQUIRE(name_of(machine.where()) == state);
      const auto step = fire(machine, events[i], places);
      CHECK(name_of(machine.where()) + " " + word_of(step) == rows.at(state)[i]);
      CHECK((places.taken % places.total == 0) == !machine.has_place());
    }
  }
}

TEST_CASE("prompt_reading: a prompt of one slice takes no place and no pause", "[core]") {
  reading_places full{4, 4};
  prompt_reading machine(limits());
  const auto first = machine.on_begin(0, start);
  CHECK(std::get<reading::read_slice>(first).units == 65'536);
  CHECK(std::holds_alternative<reading::submit>(machine.on_slice({true, 9}, full, start)));
  CHECK(full == reading_places{4, 4});
  CHECK(machine.begun_at() == start);
}

TEST_CASE("prompt_reading: the more sessions read, the longer each of them pauses", "[core]") {
  reading_places places;
  std::vector<prompt_reading> readers(5, prompt_reading(limits()));
  std::uint64_t expected = 1'000;
  for (auto& reader : readers) {
    reader.on_begin(0, start);
    const auto step = reader.on_slice({false, 1}, places, start);
    // Four have places; the fifth asks again later, however many read.
    CHECK(std::get<reading::wait>(step).us == (expected <= 4'000 ? expected : 20'000));
    expected += 1'000;
  }
  CHECK(places.taken == 4);
  CHECK(std::get<reading::wait>(readers[4].on_turn(places, start)).us == 20'000);
  readers[1].close(places);
  readers[1].close(places);  // a second time changes nothing
  CHECK(places.taken == 3);
  CHECK(std::holds_alternative<reading::read_slice>(readers[4].on_turn(places, start)));
  CHECK(places.taken == 4);
}

TEST_CASE("prompt_reading: one that is cancelled between two slices gives its place back",
          "[core]") {
  reading_places places;
  prompt_reading machine(limits());
  machine.on_begin(0, start);
  machine.on_slice({false, 1}, places, start);
  REQUIRE(places.taken == 1);
  machine.on_cancel(end_reason::client_gone, places);
  CHECK(places.taken == 0);
  CHECK_FALSE(machine.has_place());
}

TEST_CASE("prompt_reading: the narrowest deadline ends it, the request's own before the server's",
          "[core]") {
  const auto end_at = [](deadlines_ms own, deadlines_ms configured, time_us after) {
    reading_places places;
    prompt_reading machine(limits(own, configured));
    machine.on_begin(0, start);
    machine.on_slice({false, 1}, places, start);
    const auto step = machine.on_turn(places, start + after);
    const auto* end = std::get_if<reading::end>(&step);
    return end ? std::optional(end->why) : std::nullopt;
  };
  CHECK(end_at({3, 4, 5}, {}, 2'999) == std::nullopt);
  CHECK(end_at({3, 4, 5}, {}, 3'000) == end_reason::queue_timeout);
  CHECK(end_at({0, 4, 5}, {}, 5'000) == end_reason::first_token_timeout);
  CHECK(end_at({0, 0, 5}, {}, 5'000) == end_reason::total_timeout);
  CHECK(end_at({}, {0, 0, 5}, 5'000) == end_reason::total_timeout);
  CHECK(end_at({0, 0, 9}, {0, 0, 5}, 5'000) == std::nullopt);
  CHECK(end_at({}, {}, 1'000'000'000'000) == std::nullopt);
}

TEST_CASE("prompt_reading: a prompt is refused with a count that is certain", "[core]") {
  reading_places places;
  prompt_reading machine(limits());
  machine.on_begin(0, start);
  CHECK(std::holds_alternative<reading::wait>(machine.on_slice({false, 99}, places, start)));
  const auto step = machine.on_slice({false, 100}, places, start);  // no room for an answer
  const auto& refused = std::get<reading::refuse>(step);
  CHECK(refused.why == refusal::context_length);
  CHECK(refused.message ==
        "This model's maximum context length is 100 tokens, however the prompt has at least 100 "
        "tokens");
  CHECK(refused.message.find(prompt_too_long(100, 100).substr(0, 50)) == 0);
  CHECK(places.taken == 0);
}

TEST_CASE("prompt_reading: a prompt that is only scored may fill the context", "[core]") {
  reading_places places;
  auto scored = limits();
  scored.wants_answer = false;
  prompt_reading machine(scored);
  CHECK(std::holds_alternative<reading::read_slice>(machine.on_begin(100, start)));
  CHECK(std::holds_alternative<reading::wait>(machine.on_slice({false, 100}, places, start)));
  CHECK(std::holds_alternative<reading::refuse>(machine.on_slice({false, 101}, places, start)));
  scored.context = 0;
  prompt_reading unlimited(scored);
  CHECK(std::holds_alternative<reading::read_slice>(unlimited.on_begin(1 << 30, start)));
}

TEST_CASE("prompt_reading: a context of one token is a limit", "[core]") {
  auto one = limits();
  one.context = 1;
  one.wants_answer = false;
  prompt_reading fits(one), too_long(one);
  CHECK(std::holds_alternative<reading::read_slice>(fits.on_begin(1, start)));
  CHECK(std::holds_alternative<reading::refuse>(too_long.on_begin(2, start)));
}

TEST_CASE("prompt_reading: states that differ in what comes next have different hashes", "[core]") {
  reading_places places;
  const auto digest = [](const prompt_reading& x, time_us now) {
    state_hash h(now);
    x.add_to(h);
    return h.digest();
  };
  prompt_reading machine(limits({0, 0, 1000}));
  const auto received = digest(machine, start);
  machine.on_begin(0, start);
  const auto first = digest(machine, start);
  machine.on_slice({false, 1}, places, start);
  const auto placed = digest(machine, start);
  const auto later = digest(machine, start + 1);
  machine.close(places);
  const auto left = digest(machine, start);
  CHECK(received != first);
  CHECK(first != placed);
  CHECK(placed != later);
  CHECK(placed != left);
  CHECK(left == digest(machine, start + 1));
}
