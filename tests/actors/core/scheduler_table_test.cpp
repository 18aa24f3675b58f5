// Every reachable state x event cell, fired and compared with the table in actors/STATES.md: the
// state afterwards and the effects that name the request, word for word.
#include <algorithm>
#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <optional>
#include <type_traits>

#include "actors/core/scheduler_machine.hpp"
#include "actors/core/session/prompt_reading.hpp"
#include "tests/actors/core/scheduler_world.hpp"
#include "tests/actors/core/state_table.hpp"

using namespace troupe::core;
using troupe::core::testing::make_submit;

using troupe::core::testing::roomy_limits;
using troupe::core::testing::state_rows;

namespace {

constexpr request_id other{1}, subject{2};
constexpr time_us after_deadlines = 4'000'000, after_moves = 6'000'000;

const std::vector<std::string> events = {
    "submit",      "granted",        "denied",         "released",    "moved",
    "move_failed", "move_late",      "step_done",      "step_failed", "cancel",
    "deadline",    "reader_stalled", "reader_resumed", "drain",       "stop"};
const std::vector<request_state> states_before_the_submit = {request_state::received,
                                                             request_state::tokenizing};
const std::vector<request_state> states = {request_state::queued,
                                           request_state::awaiting_fork,
                                           request_state::awaiting_grant,
                                           request_state::forking,
                                           request_state::prefilling,
                                           request_state::prefilling_in_flight,
                                           request_state::decoding,
                                           request_state::decoding_in_flight,
                                           request_state::awaiting_recompute,
                                           request_state::moving_out,
                                           request_state::parked,
                                           request_state::moving_in,
                                           request_state::paused,
                                           request_state::retiring,
                                           request_state::gone};

submit subject_submit(bool deadlines = true) {
  auto s = make_submit(subject.value, 3, 50);
  if (deadlines) s.deadlines = {1000, 2000, 3000};
  return s;
}

// The bare machine, with answers written by hand.
struct bench {
  scheduler_machine machine;
  effects out;
  time_us now = 0;
  step_plan plan;
  std::map<request_id, reserve> asked;
  std::optional<fork_lease> forked;  // the subject's
  move_id move{77};                  // the subject's latest; else one that nobody knows
  // The subject's session while it reads; none in scenes that begin behind the submit.
  std::optional<prompt_reading> reading;
  reading_places places;
  bool ended_unsubmitted = false;
  block_id fresh = 0;

  bench(std::uint32_t max_num_seqs, bool park) : machine(limits(max_num_seqs, park)) {}
  static scheduler_limits limits(std::uint32_t max_num_seqs, bool park) {
    auto l = roomy_limits();
    l.block_size = 4;
    l.max_num_seqs = max_num_seqs;
    l.park = park;
    l.move_limit_us = 5'000'000;
    return l;
  }

  template <class Event>
  void fire(const Event& e) {
    out.clear();
    machine.on(e, now, out);
    REQUIRE(machine.check().empty());
    for (const auto& x : out) {
      if (const auto* r = std::get_if<reserve>(&x)) asked[r->lease.request] = *r;
      if (const auto* f = std::get_if<fork_lease>(&x)) forked = *f;
      if (const auto* p = std::get_if<step_plan>(&x)) plan = *p;
      if (const auto* m = std::get_if<move_out>(&x)) move = m->move;
      if (const auto* m = std::get_if<move_in>(&x)) move = m->move;
      REQUIRE_FALSE(std::holds_alternative<violation>(x));
    }
  }
  void follow(const reading_step& step) {
    if (std::holds_alternative<reading::submit>(step)) fire(subject_submit());
    ended_unsubmitted = std::holds_alternative<reading::end>(step);
  }
  void read_all() {
    if (reading->where() == prompt_reading::state::received) reading->on_begin(0, now);
    follow(reading->on_slice({true, 3}, places, now));
  }
  request_state subject_state() const {
    if (reading && reading->where() == prompt_reading::state::received)
      return request_state::received;
    if (reading && reading->where() == prompt_reading::state::tokenizing)
      return request_state::tokenizing;
    return machine.state_of(subject);
  }
  granted grant_for(request_id id) {
    const bool forks = forked && id == subject;
    granted g{forks ? forked->child : asked.at(id).lease, {}};
    const auto count = forks ? forked->shared + 1 : asked.at(id).count;
    for (std::uint32_t i = 0; i < count; ++i) g.blocks.push_back(fresh++);
    return g;
  }
  void grant(request_id id) { fire(grant_for(id)); }
  step_done done() {
    step_done d{plan.step, {}, 1000};
    for (const auto& i : plan.items) {
      item_result r;
      r.request = i.request;
      if (i.sample) r.sampled = troupe::scored_token{7, 0, {}};
      for (const auto& tail : i.tails)
        r.tails.push_back({tail.request, troupe::scored_token{8, 0, {}}});
      d.items.push_back(r);
    }
    return d;
  }
  void step() { fire(done()); }
  lease_id lease() const {
    if (forked) return forked->child;
    const auto it = asked.find(subject);
    return it == asked.end() ? lease_id{subject, 1} : it->second.lease;
  }

  // The other one, ranked first, with a step in flight and room to go on.
  void other_runs() {
    fire(make_submit(other.value, 4, 50));
    for (int i = 0; i < 5; ++i) grant(other);
  }
};

/// A row of the table: a state, and for retiring which operation it waits for.
struct row_of {
  request_state state;
  bool by_move = false;
  std::string label() const { return std::string(name_of(state)) + (by_move ? " (a move)" : ""); }
};

bool is_moving(request_state s) {
  return s == request_state::moving_out || s == request_state::parked ||
         s == request_state::moving_in;
}

bench scene_of(row_of row, bool deadlines = true);

// The other request leads a group of which the subject is the tail.
bench scene_of_group(request_state s, bool deadlines) {
  bench b(2, false);
  auto leader = make_submit(other.value, 4, 50);
  leader.tails = {{subject, 9}};
  if (deadlines) leader.deadlines = {1000, 2000, 3000};
  b.fire(leader);
  b.grant(other);
  if (s == request_state::forking) b.step();
  return b;
}

bench scene_of(request_state s, bool deadlines = true) {
  if (s == request_state::awaiting_fork || s == request_state::forking)
    return scene_of_group(s, deadlines);
  bench b(s == request_state::queued ? 1 : 2, is_moving(s));
  b.other_runs();
  if (s == request_state::gone) return b;
  if (s == request_state::received || s == request_state::tokenizing) {
    b.reading.emplace(reading_limits{0, true, subject_submit(deadlines).deadlines, {}});
    if (s == request_state::received) return b;
    b.reading->on_begin(0, b.now);
    b.reading->on_slice({false, 1}, b.places, b.now);
    return b;
  }
  b.fire(subject_submit(deadlines));
  if (s == request_state::queued || s == request_state::awaiting_grant) return b;
  b.grant(subject);
  if (s == request_state::prefilling) return b;
  b.step();
  if (s == request_state::prefilling_in_flight) return b;
  if (s == request_state::decoding_in_flight || s == request_state::retiring ||
      s == request_state::paused) {
    b.grant(subject);
    b.step();
    if (s == request_state::paused) {
      b.fire(reader_stalled{subject});
      b.step();
    }
    if (s == request_state::retiring) b.fire(cancel{subject, end_reason::client_gone, b.now});
    return b;
  }
  for (int i = 0; i < 2; ++i)
    b.step();  // first token, second, and no place for the next: growth is not answered
  if (s == request_state::decoding) return b;
  b.fire(denied{b.lease()});
  b.step();  // preempted between steps
  if (s == request_state::awaiting_recompute || s == request_state::moving_out) return b;
  b.fire(moved{b.move, move_outcome::ok});
  if (s == request_state::parked) return b;
  b.fire(released{b.lease(), 1});
  b.grant(subject);
  return b;
}

bench scene_of(row_of row, bool deadlines) {
  if (!row.by_move) return scene_of(row.state, deadlines);
  auto b = scene_of(request_state::moving_out, deadlines);
  b.fire(cancel{subject, end_reason::client_gone, b.now});
  return b;
}

void fire(bench& b, const std::string& event, end_reason why) {
  if (b.reading) {  // these come to the session; all others mean nothing to it
    if (event == "submit") return b.read_all();
    if (event == "cancel") return b.follow(b.reading->on_cancel(why, b.places));
    if (event == "deadline") b.follow(b.reading->on_turn(b.places, after_deadlines));
  }
  if (event == "submit") b.fire(subject_submit());
  if (event == "granted")
    b.fire(b.asked.contains(subject) || b.forked ? b.grant_for(subject) : granted{b.lease(), {99}});
  if (event == "denied") b.fire(denied{b.lease()});
  if (event == "released") b.fire(released{b.lease(), 1});
  if (event == "moved") b.fire(moved{b.move, move_outcome::ok});
  if (event == "move_failed") b.fire(moved{b.move, move_outcome::failed});
  if (event == "move_late") {
    b.now = after_moves;
    b.fire(tick{});
  }
  if (event == "step_done") b.step();
  if (event == "step_failed") b.fire(step_failed{b.plan.step, "device lost"});
  if (event == "cancel") b.fire(cancel{subject, why, b.now});
  if (event == "deadline") {
    b.now = after_deadlines;
    b.fire(tick{});
  }
  if (event == "reader_stalled") b.fire(reader_stalled{subject});
  if (event == "reader_resumed") b.fire(reader_resumed{subject});
  if (event == "drain") b.fire(drain{});
  if (event == "stop") b.fire(stop{why, "going down"});
}

// "state effect effect ...": what the README's cell must say.
std::string seen(const bench& b, std::uint64_t ignored_before) {
  std::map<int, std::string> words;
  if (b.machine.ignored_events() > ignored_before) words[0] = "ignored";
  if (b.ended_unsubmitted) words[7] = "ended";
  for (const auto& x : b.out) {
    const auto about = [&]<class Effect>(int order, const char* word, auto id_of,
                                         std::type_identity<Effect>) {
      if (const auto* e = std::get_if<Effect>(&x); e && id_of(*e) == subject) words[order] = word;
    };
    const auto own = [](const auto& e) { return e.request; };
    const auto leased = [](const auto& e) { return e.lease.request; };
    const auto copied = [](const auto& e) { return e.parked.request; };
    about(1, "admitted", own, std::type_identity<admitted>{});
    about(2, "publish", leased, std::type_identity<publish>{});
    about(3, "tokens_out", own, std::type_identity<tokens_out>{});
    about(4, "preempted", own, std::type_identity<preempted>{});
    about(5, "release", leased, std::type_identity<release>{});
    about(6, "drop_parked", copied, std::type_identity<drop_parked>{});
    about(7, "ended", own, std::type_identity<ended>{});
    about(8, "reserve", leased, std::type_identity<reserve>{});
    if (const auto* e = std::get_if<fork_lease>(&x); e && e->child.request == subject)
      words[9] = "fork_lease";
    about(10, "move_out", leased, std::type_identity<move_out>{});
    about(11, "move_in", copied, std::type_identity<move_in>{});
    if (const auto* e = std::get_if<step_plan>(&x))
      for (const auto& i : e->items)
        if (i.request == subject) words[12] = "step_plan";
    if (std::holds_alternative<move_abandoned>(x)) words[13] = "move_abandoned";
  }
  std::string text = name_of(b.subject_state());
  for (const auto& [order, word] : words) text += " " + word;
  return text;
}

}  // namespace

TEST_CASE("scheduler: every state x event cell does what the table in actors/STATES.md says",
          "[core]") {
  const auto rows = state_rows("state");
  REQUIRE(rows.contains("state"));
  REQUIRE(rows.at("state") == events);
  int cells = 0;
  std::vector<row_of> all;
  for (const auto state : states_before_the_submit) all.push_back({state});
  for (const auto state : states) all.push_back({state});
  all.push_back({request_state::retiring, true});
  for (const auto& expected : all) {
    REQUIRE(rows.contains(expected.label()));
    const auto& row = rows.at(expected.label());
    REQUIRE(row.size() == events.size());
    for (std::size_t i = 0; i < events.size(); ++i) {
      INFO(expected.label() << " x " << events[i]);
      auto b = scene_of(expected, events[i] != "move_late");
      REQUIRE(b.subject_state() == expected.state);
      const auto ignored = b.machine.ignored_events();
      fire(b, events[i], end_reason::cancelled);
      CHECK(seen(b, ignored) == row[i]);
      ++cells;
    }
  }
  CHECK(cells == 18 * 15);
}

TEST_CASE("scheduler: the table has a row for every state and every state is fired", "[core]") {
  const auto rows = state_rows("state");
  for (int i = 0; i < request_state_count; ++i) {
    const auto state = static_cast<request_state>(i);
    INFO(name_of(state));
    CHECK(rows.contains(name_of(state)));
    const auto fired = [state](const std::vector<request_state>& some) {
      return std::find(some.begin(), some.end(), state) != some.end();
    };
    CHECK((fired(states) || fired(states_before_the_submit)));
  }
}

TEST_CASE("scheduler: every cancel reason is handled alike and arrives in the one end", "[core]") {
  for (const auto state : states) {
    if (state == request_state::gone || state == request_state::retiring) continue;
    for (int i = 0; i < end_reason_count; ++i) {
      for (const std::string event : {"cancel", "stop"}) {
        const auto why = static_cast<end_reason>(i);
        INFO(name_of(state) << ", " << event << " with " << name_of(why));
        auto b = scene_of(state);
        fire(b, event, why);
        const bool moves = state == request_state::moving_out || state == request_state::moving_in;
        if (b.machine.state_of(subject) == request_state::retiring && moves)
          b.fire(moved{b.move, move_outcome::ok});
        else if (b.machine.state_of(subject) == request_state::retiring)
          b.step();
        std::vector<ended> ends;
        for (const auto& x : b.out)
          if (const auto* e = std::get_if<ended>(&x); e && e->request == subject)
            ends.push_back(*e);
        REQUIRE(ends.size() == 1);
        CHECK(ends[0].why == why);
        CHECK(b.machine.state_of(subject) == request_state::gone);
      }
    }
  }
}

TEST_CASE(
    "scheduler: the deadline that ends a request is the one of its state, and its phase is kept",
    "[core]") {
  struct expectation {
    request_state state;
    end_reason why;
    life_phase phase;
  };
  const expectation all[] = {
      {request_state::queued, end_reason::queue_timeout, life_phase::queued},
      {request_state::awaiting_grant, end_reason::queue_timeout, life_phase::queued},
      {request_state::awaiting_fork, end_reason::first_token_timeout, life_phase::prefill},
      {request_state::forking, end_reason::total_timeout, life_phase::decode},
      {request_state::prefilling, end_reason::first_token_timeout, life_phase::prefill},
      {request_state::prefilling_in_flight, end_reason::first_token_timeout, life_phase::prefill},
      {request_state::decoding, end_reason::total_timeout, life_phase::decode},
      {request_state::decoding_in_flight, end_reason::total_timeout, life_phase::decode},
      {request_state::awaiting_recompute, end_reason::total_timeout, life_phase::queued},
      {request_state::moving_out, end_reason::total_timeout, life_phase::parked},
      {request_state::parked, end_reason::total_timeout, life_phase::parked},
      {request_state::moving_in, end_reason::total_timeout, life_phase::parked},
      {request_state::paused, end_reason::total_timeout, life_phase::decode},
  };
  for (const auto& x : all) {
    INFO(name_of(x.state));
    auto b = scene_of(x.state);
    fire(b, "deadline", end_reason::cancelled);
    if (b.machine.state_of(subject) == request_state::retiring) {
      if (x.phase == life_phase::parked)
        b.fire(moved{b.move, move_outcome::ok});
      else
        b.step();
    }
    bool found = false;
    for (const auto& e : b.out)
      if (const auto* end = std::get_if<ended>(&e); end && end->request == subject) {
        found = true;
        CHECK(end->why == x.why);
        CHECK(end->phase == x.phase);
      }
    CHECK(found);
  }
}
