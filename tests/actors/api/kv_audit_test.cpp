// Each check of the audit, with one inconsistency planted in a sound report; and the histories it
// tells.
#include "actors/api/kv_audit.hpp"

#include <catch2/catch.hpp>

#include "actors/core/blocks/lease_history.hpp"

using namespace troupe::core;

namespace {

constexpr lease_id one{request_id{1}, 1}, two{request_id{2}, 1}, three{request_id{3}, 2};

/// Request 1 decodes with blocks 0 and 1, request 2 is parked with two blocks, request 3 is being
/// moved out of block 2.
kv_report sound_report() {
  kv_report r;
  auto& ledger = r.allocator;
  ledger.counts = {.total = 6, .free = 1, .leased = 3, .cached = 1, .quarantined = 1};
  using place = block_place;
  ledger.blocks = {{place::leased, {one}}, {place::leased, {one}}, {place::leased, {three}},
                   {place::cached, {}},    {place::free, {}},      {place::quarantined, {}}};
  kv_request_view a, b, c;
  a.id = one.request, a.lease = one, a.blocks = {0, 1};
  b.id = two.request, b.copy = two, b.copy_blocks = 2, b.copy_whole = true;
  c.id = three.request, c.lease = c.copy = three, c.blocks = {2}, c.copy_blocks = 1;
  r.scheduler.requests = {a, b, c};
  r.scheduler.moves = {{move_id{7}, three.request, three, three, true, false, 1, 5}};
  r.mover.copies = {{two, 2, 2, 0, {}, false}, {three, 1, 0, 1, move_id{7}, true}};
  r.mover.counts = {.total = 8, .used = 3, .filled = 2, .copies = 2, .moving = 1};
  return r;
}

std::string only_problem(const kv_report& r) {
  const auto found = find_problems(r);
  REQUIRE(found.size() == 1);
  return found.front();
}

}  // namespace

TEST_CASE("kv_audit: a sound report has no problem", "[core]") {
  CHECK(find_problems(sound_report()).empty());
  CHECK(moving_blocks(sound_report().mover) == 1);
}

TEST_CASE("kv_audit: a count that does not add up is found", "[core]") {
  auto r = sound_report();
  r.allocator.counts.total = 7;
  CHECK(only_problem(r) == "free 1 + leased 3 + cached 1 + quarantined 1 is not the total, 7");
  r = sound_report();
  r.allocator.counts.cached = 0, r.allocator.counts.free = 2;
  CHECK(only_problem(r) == "the allocator's counts differ from its blocks counted one by one");
  r = sound_report();
  r.mover.copies.back().moving = 4;
  CHECK(only_problem(r) == "more blocks are being moved than are leased");
  r = sound_report();
  r.mover.counts.used = 4;
  CHECK(only_problem(r) == "the mover's counts differ from its copies counted one by one");
}

TEST_CASE("kv_audit: what an owner's own check finds is reported", "[core]") {
  auto r = sound_report();
  r.scheduler.broken = "a", r.allocator.broken = "b", r.mover.broken = "c";
  CHECK(find_problems(r) == std::vector<std::string>{"scheduler: a", "allocator: b", "mover: c"});
}

TEST_CASE("kv_audit: a lease that only one side knows is found", "[core]") {
  auto r = sound_report();
  r.scheduler.requests.erase(r.scheduler.requests.begin());
  CHECK(only_problem(r) ==
        "lease 1.1 holds 2 blocks for the allocator and is unknown to the scheduler");
  r = sound_report();
  r.scheduler.requests.front().blocks->push_back(4);
  CHECK(only_problem(r) ==
        "lease 1.1 has 3 blocks for the scheduler and 2 different ones for the allocator");
  r = sound_report();
  r.scheduler.requests.front().blocks->pop_back();
  CHECK(only_problem(r) == "lease 1.1 has 1 blocks for the scheduler and 2 for the allocator");
  r.scheduler.requests.front().asking = 1;  // the answer is in flight
  CHECK(find_problems(r).empty());
  r.scheduler.requests.front().blocks.reset();  // retiring: the scheduler does not say
  CHECK(find_problems(r).empty());
}

TEST_CASE("kv_audit: a copy or a move that only one side knows is found", "[core]") {
  auto r = sound_report();
  r.scheduler.requests[1].copy.reset();
  CHECK(only_problem(r) == "copy 2.1 has 2 slots of the host tier and is unknown to the scheduler");
  r = sound_report();
  r.scheduler.requests[1].copy_blocks = 3;
  CHECK(only_problem(r) == "copy 2.1 has 3 blocks for the scheduler and 2 for the mover");
  r = sound_report();
  r.mover.copies.back().move = move_id{8};
  CHECK(only_problem(r) == "move 8 is in flight and is unknown to the scheduler");
  r = sound_report();
  r.mover.copies.pop_back();
  r.mover.counts.used = 2, r.mover.counts.copies = 1;  // the move is over, its answer in flight
  CHECK(find_problems(r).empty());
}

TEST_CASE(
    "lease_history: the last eight events are kept, repeated ones as one, also of requests that "
    "ended",
    "[core]") {
  lease_history history;
  history.note(one, "granted", 1);  // of an unknown request: ignored
  CHECK(history.words(one.request) == "no events kept");
  history.begin(one.request, 10);
  history.note(one, "reserve", 20);
  for (int i = 0; i < 5; ++i) history.note(one.request, "step_plan", 30 + i);
  history.end(one.request, 40);
  history.note(one, "released", 45);
  CHECK(history.words(one.request) ==
        "admitted +0 us, reserve 1.1 +10 us, step_plan 1.1 x5 +24 us, ended 1.1 +30 us, released "
        "1.1 +35 us");

  history.begin(two.request, 50);
  for (int i = 0; i < 20; ++i) history.note(two, i % 2 ? "reserve" : "granted", 60 + i);
  const auto events = history.of(two.request);
  REQUIRE(events.size() == lease_history::events_kept);
  CHECK(events.front().at == 72);
  CHECK(events.back().at == 79);
}

TEST_CASE("lease_history: of the requests that ended the last 32 are kept", "[core]") {
  lease_history history;
  for (std::uint64_t i = 1; i <= 33; ++i) {
    history.begin(request_id{i}, 0);
    history.end(request_id{i}, 1);
  }
  CHECK(history.of(request_id{1}).empty());
  CHECK(history.of(request_id{2}).size() == 2);
}
