// Every reachable state x event cell, fired and compared with the table in actors/README.md: the
// state afterwards and the effects that name the request, word for word.
#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

#include "actors/core/scheduler_machine.hpp"
#include "tests/actors/core/scheduler_world.hpp"

using namespace troupe::core;
using troupe::core::testing::make_submit;
using troupe::core::testing::roomy_limits;

namespace {

constexpr request_id other{1}, subject{2};
constexpr time_us far_future = 100'000'000;

const std::vector<std::string> events = {"submit",    "granted",     "denied", "released",
                                         "step_done", "step_failed", "cancel", "deadline",
                                         "drain",     "stop"};
const std::vector<request_state> states = {request_state::queued,
                                           request_state::awaiting_grant,
                                           request_state::prefilling,
                                           request_state::prefilling_in_flight,
                                           request_state::decoding,
                                           request_state::decoding_in_flight,
                                           request_state::awaiting_recompute,
                                           request_state::retiring,
                                           request_state::gone};

submit subject_submit() {
  auto s = make_submit(subject.value, 3, 50);
  s.deadlines = {1000, 2000, 3000};
  return s;
}

// The bare machine, with answers written by hand.
struct bench {
  scheduler_machine machine;
  effects out;
  time_us now = 0;
  step_plan plan;
  std::map<request_id, reserve> asked;
  block_id fresh = 0;

  explicit bench(std::uint32_t max_num_seqs) : machine(limits(max_num_seqs)) {}
  static scheduler_limits limits(std::uint32_t max_num_seqs) {
    auto l = roomy_limits();
    l.block_size = 4;
    l.max_num_seqs = max_num_seqs;
    return l;
  }

  template <class Event>
  void fire(const Event& e) {
    out.clear();
    machine.on(e, now, out);
    REQUIRE(machine.check().empty());
    for (const auto& x : out) {
      if (const auto* r = std::get_if<reserve>(&x)) asked[r->lease.request] = *r;
      if (const auto* p = std::get_if<step_plan>(&x)) plan = *p;
      REQUIRE_FALSE(std::holds_alternative<violation>(x));
    }
  }
  granted grant_for(request_id id) {
    granted g{asked.at(id).lease, {}};
    for (std::uint32_t i = 0; i < asked.at(id).count; ++i) g.blocks.push_back(fresh++);
    return g;
  }
  void grant(request_id id) { fire(grant_for(id)); }
  step_done done() {
    step_done d{plan.step, {}, 1000};
    for (const auto& i : plan.items) {
      item_result r;
      r.request = i.request;
      if (i.sample) r.sampled = troupe::scored_token{7, 0, {}};
      d.items.push_back(r);
    }
    return d;
  }
  void step() { fire(done()); }
  lease_id lease() const {
    const auto it = asked.find(subject);
    return it == asked.end() ? lease_id{subject, 1} : it->second.lease;
  }

  // The other one, ranked first, with a step in flight and room to go on.
  void other_runs() {
    fire(make_submit(other.value, 4, 50));
    for (int i = 0; i < 5; ++i) grant(other);
  }
};

bench scene_of(request_state s) {
  bench b(s == request_state::queued ? 1 : 2);
  b.other_runs();
  if (s == request_state::gone) return b;
  b.fire(subject_submit());
  if (s == request_state::queued || s == request_state::awaiting_grant) return b;
  b.grant(subject);
  if (s == request_state::prefilling) return b;
  b.step();
  if (s == request_state::prefilling_in_flight) return b;
  if (s == request_state::decoding_in_flight || s == request_state::retiring) {
    b.grant(subject);
    b.step();
    if (s == request_state::retiring) b.fire(cancel{subject, end_reason::client_gone, b.now});
    return b;
  }
  for (int i = 0; i < 2; ++i)
    b.step();  // first token, second, and no place for the next: growth is not answered
  if (s == request_state::decoding) return b;
  b.fire(denied{b.lease()});
  b.step();  // preempted between steps
  return b;
}

void fire(bench& b, const std::string& event, end_reason why) {
  if (event == "submit") b.fire(subject_submit());
  if (event == "granted")
    b.fire(b.asked.contains(subject) ? b.grant_for(subject) : granted{b.lease(), {99}});
  if (event == "denied") b.fire(denied{b.lease()});
  if (event == "released") b.fire(released{b.lease(), 1});
  if (event == "step_done") b.step();
  if (event == "step_failed") b.fire(step_failed{b.plan.step, "device lost"});
  if (event == "cancel") b.fire(cancel{subject, why, b.now});
  if (event == "deadline") {
    b.now = far_future;
    b.fire(tick{});
  }
  if (event == "drain") b.fire(drain{});
  if (event == "stop") b.fire(stop{why, "going down"});
}

// "state effect effect ...": what the README's cell must say.
std::string seen(const bench& b, std::uint64_t ignored_before) {
  std::map<int, std::string> words;
  if (b.machine.ignored_events() > ignored_before) words[0] = "ignored";
  for (const auto& x : b.out) {
    if (const auto* e = std::get_if<admitted>(&x); e && e->request == subject)
      words[1] = "admitted";
    if (const auto* e = std::get_if<tokens_out>(&x); e && e->request == subject)
      words[2] = "tokens_out";
    if (const auto* e = std::get_if<release>(&x); e && e->lease.request == subject)
      words[3] = "release";
    if (const auto* e = std::get_if<ended>(&x); e && e->request == subject) words[4] = "ended";
    if (const auto* e = std::get_if<reserve>(&x); e && e->lease.request == subject)
      words[5] = "reserve";
    if (const auto* e = std::get_if<step_plan>(&x))
      for (const auto& i : e->items)
        if (i.request == subject) words[6] = "step_plan";
  }
  std::string text = name_of(b.machine.state_of(subject));
  for (const auto& [order, word] : words) text += " " + word;
  return text;
}

std::string trimmed(std::string s) {
  const auto from = s.find_first_not_of(" `");
  const auto to = s.find_last_not_of(" `");
  return from == std::string::npos ? "" : s.substr(from, to - from + 1);
}

std::map<std::string, std::vector<std::string>> readme_rows() {
  std::ifstream in(TROUPE_SOURCE_DIR "/actors/README.md");
  REQUIRE(in.good());
  std::map<std::string, std::vector<std::string>> rows;
  bool inside = false;
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("| state |", 0) == 0) inside = true;
    if (inside && line.rfind("|", 0) != 0) break;
    if (!inside) continue;
    std::vector<std::string> cells;
    std::stringstream s(line);
    for (std::string cell; std::getline(s, cell, '|');) cells.push_back(trimmed(cell));
    if (cells.size() > 1) rows[cells[1]] = {cells.begin() + 2, cells.end()};
  }
  return rows;
}

}  // namespace

TEST_CASE("scheduler: every state x event cell does what the table in actors/README.md says",
          "[core]") {
  const auto rows = readme_rows();
  REQUIRE(rows.contains("state"));
  REQUIRE(rows.at("state") == events);
  int cells = 0;
  for (const auto state : states) {
    REQUIRE(rows.contains(name_of(state)));
    const auto& row = rows.at(name_of(state));
    REQUIRE(row.size() == events.size());
    for (std::size_t i = 0; i < events.size(); ++i) {
      INFO(name_of(state) << " x " << events[i]);
      auto b = scene_of(state);
      REQUIRE(b.machine.state_of(subject) == state);
      const auto ignored = b.machine.ignored_events();
      fire(b, events[i], end_reason::cancelled);
      CHECK(seen(b, ignored) == row[i]);
      ++cells;
    }
  }
  CHECK(cells == 90);
}

TEST_CASE("scheduler: the table has a row for every state, and reserved ones are marked",
          "[core]") {
  const auto rows = readme_rows();
  for (int i = 0; i < request_state_count; ++i) {
    const auto state = static_cast<request_state>(i);
    INFO(name_of(state));
    REQUIRE(rows.contains(name_of(state)));
    if (std::find(states.begin(), states.end(), state) != states.end()) continue;
    const bool sessions = state == request_state::received || state == request_state::tokenizing;
    CHECK(rows.at(name_of(state)).front() == (sessions ? "the session's, not yet submitted"
                                                       : "reserved, no transition leads here yet"));
  }
}

TEST_CASE("scheduler: every cancel reason takes the same way and arrives in the one end",
          "[core]") {
  for (const auto state : states) {
    if (state == request_state::gone || state == request_state::retiring) continue;
    for (int i = 0; i < end_reason_count; ++i) {
      for (const std::string event : {"cancel", "stop"}) {
        const auto why = static_cast<end_reason>(i);
        INFO(name_of(state) << ", " << event << " with " << name_of(why));
        auto b = scene_of(state);
        fire(b, event, why);
        if (b.machine.state_of(subject) == request_state::retiring) b.step();
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
      {request_state::prefilling, end_reason::first_token_timeout, life_phase::prefill},
      {request_state::prefilling_in_flight, end_reason::first_token_timeout, life_phase::prefill},
      {request_state::decoding, end_reason::total_timeout, life_phase::decode},
      {request_state::decoding_in_flight, end_reason::total_timeout, life_phase::decode},
      {request_state::awaiting_recompute, end_reason::total_timeout, life_phase::queued},
  };
  for (const auto& x : all) {
    INFO(name_of(x.state));
    auto b = scene_of(x.state);
    fire(b, "deadline", end_reason::cancelled);
    if (b.machine.state_of(subject) == request_state::retiring) b.step();
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
