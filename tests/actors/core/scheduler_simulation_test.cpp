// Seeded worlds: random interleaving of clients, allocator, device, deadlines and faults in a tiny
// pool. The world checks its rules after every event; here faults end, everything drains, and the
// pool is whole.
#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "tests/actors/core/scheduler_world.hpp"

using namespace troupe::core;
using namespace troupe::core::testing;
using troupe::token_id;

namespace {

class storm {
 public:
  /// `crowded`: many in a small pool with a host tier, so that moves are what happens most.
  explicit storm(std::uint64_t seed, bool crowded = false) : random_(seed), world(limits(crowded)) {
    for (auto& w : weight_) w = below(4) == 0 ? 0 : 1 + below(10);
    weight_[canceller] = (weight_[canceller] + 1) / 3;
    weight_[reader] = below(2) ? 0 : weight_[reader];
    weight_[step] = 1 + below(10);
    weight_[allocator] = weight_[answer] = 4 + below(10);
    weight_[mover] = below(4) == 0 ? 1 : 4 + below(10);
    world.host_blocks = below(4) == 0 ? below(8) : 1000;
    if (crowded) {
      weight_[newcomer] = 2 + below(4);
      weight_[canceller] = below(2);
      weight_[clock] = 1;
      weight_[mover] = 2 + below(4);
      weight_[step] = 10;
    }
    world.end_token_every = below(2) ? 0 : 20 + below(50);
  }

  void blow(int events) {
    for (int i = 0; i < events; ++i) {
      world.now += below(3000);
      switch (pick()) {
        case newcomer:
          submit_one();
          break;
        case canceller:
          if (last_ > 0) world.cancel(1 + below(static_cast<std::uint32_t>(last_)), any_reason());
          break;
        case allocator:
          world.allocate_one();
          break;
        case answer:
          world.answer_one();
          break;
        case step:
          for (auto id = last_ > 8 ? last_ - 8 : 1; id <= last_; ++id)
            pauses += world.state(id) == request_state::paused ? 1 : 0;
          world.finish_step();
          break;
        case mover:
          if (below(world.mover_stuck ? 20 : 12) == 0) world.mover_stuck = !world.mover_stuck;
          world.move_one(below(8) == 0 ? any_move_failure() : move_outcome::ok);
          break;
        case fault:
          if (below(6) == 0) world.break_step();
          if (below(2)) world.move_one(any_move_failure());
          break;
        case reader:
          slow_or_quick_reader();
          break;
        case clock:
          world.now += below(20'000);
          world.send(tick{});
          break;
        case late:
          late_event();
          break;
        default:
          break;
      }
    }
  }

 private:
  enum kind {
    newcomer,
    canceller,
    allocator,
    answer,
    step,
    mover,
    fault,
    clock,
    late,
    reader,
    kinds
  };

  std::mt19937_64 random_;
  std::uint32_t weight_[kinds] = {};
  std::uint64_t last_ = 0;

 public:
  scheduler_world world;
  std::map<std::uint64_t, submit> asked;
  std::uint64_t pauses = 0;

  /// Faults end: the mover moves, readers read or are given up.
  void calm() {
    world.mover_stuck = false;
    if (below(2)) return world.resume_all();
    world.now += 100'000'000;
    world.send(tick{});
  }

 private:
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }

  scheduler_limits limits(bool crowded) {
    auto l = roomy_limits();
    l.block_size = below(2) ? 4 : 16;
    l.num_blocks = 6 + below(20);
    l.max_num_seqs = 1 + below(6);
    l.max_num_batched_tokens = 4 + below(60);
    l.max_num_queued_reqs = 2 + below(10);
    l.max_step_us = 500 + below(20'000);
    l.model_context = 60 + below(200);
    if (crowded) {
      l.num_blocks = 8 + below(8);
      l.max_num_seqs = 3 + below(3);
    }
    // Some models have a second layer group that looks back over a few tokens only.
    if (below(3) == 0) l.windows = {0, 1 + below(3 * l.block_size)};
    if (below(2) == 0) std::reverse(l.windows.begin(), l.windows.end());
    l.prefix_caching = below(4) != 0;
    l.park = crowded || below(3) != 0;
    l.move_chunk_blocks = 1 + below(3);
    l.move_limit_us = below(2) ? 10'000 + below(30'000) : 100'000'000;
    l.stall_limit_us = below(2) ? 20'000 + below(50'000) : 100'000'000;
    return l;
  }

  int pick() {
    std::uint32_t sum = 0;
    for (const auto w : weight_) sum += w;
    auto x = below(sum);
    for (int k = 0; k < kinds; ++k) {
      if (x < weight_[k]) return k;
      x -= weight_[k];
    }
    return kinds;
  }

  move_outcome any_move_failure() {
    constexpr move_outcome all[] = {move_outcome::host_full, move_outcome::failed,
                                    move_outcome::corrupt};
    return all[below(3)];
  }

  end_reason any_reason() {
    constexpr end_reason all[] = {end_reason::client_gone, end_reason::cancelled,
                                  end_reason::stop_string, end_reason::slow_reader,
                                  end_reason::session_crash};
    return all[below(5)];
  }

  void submit_one() {
    auto s = make_submit(++last_, below(60), below(80));
    if (below(2)) s.prompt = prompt_of(static_cast<std::uint32_t>(s.prompt.size()), below(3));
    if (below(5) == 0) s.cache_salt = "salt";
    s.keep_prefix = below(2) == 0;
    s.priority = static_cast<std::int32_t>(below(3));
    s.score_prompt = below(4) == 0;
    s.decode.min_tokens = below(3) == 0 ? below(10) : 0;
    if (below(5) == 0) s.deadlines = {1 + below(30), 1 + below(60), 1 + below(200)};
    if (below(6) == 0) s.decode.max_tokens.reset();
    if (below(4) == 0) s.decode.stop_token_ids = {static_cast<token_id>(1 + below(900))};
    const auto leader = last_;
    asked[leader] = s;
    for (auto tails = below(4) == 0 ? 1 + below(3) : 0; tails > 0; --tails) {
      s.tails.push_back({request_id{++last_}, below(100)});
      auto single = asked[leader];
      single.request = request_id{last_};
      single.decode.sampling.seed = s.tails.back().seed;
      asked[last_] = single;
    }
    world.send(s);
    if (below(8) == 0 && world.state(leader) != request_state::gone) world.send(s);  // a duplicate
  }

  void slow_or_quick_reader() {
    const request_id who{1 + below(static_cast<std::uint32_t>(last_) + 1)};
    if (below(3) == 0)
      world.send(reader_resumed{who});
    else
      world.send(reader_stalled{who});
    for (auto id = last_ > 8 ? last_ - 8 : 1; id <= last_; ++id) {  // one of those who live
      const auto s = world.state(id);
      if (s == request_state::gone || below(3)) continue;
      if (s == request_state::paused)
        world.send(reader_resumed{request_id{id}});
      else
        world.send(reader_stalled{request_id{id}});
      break;
    }
  }

  void late_event() {
    const lease_id lease{request_id{1 + below(static_cast<std::uint32_t>(last_) + 2)},
                         1000 + below(3)};
    switch (below(6)) {
      case 5:
        world.send(moved{move_id{100'000 + below(9)}, move_outcome::ok});
        break;
      case 0:
        world.send(granted{lease, {}});
        break;
      case 1:
        world.send(denied{lease});
        break;
      case 2:
        world.send(released{lease, 0});
        break;
      case 3:
        world.send(step_done{step_id{world.steps + 1 + below(3)}, {}, 5});
        break;
      default:
        world.send(step_failed{step_id{0}, "late"});
        break;
    }
  }
};

}  // namespace

TEST_CASE("scheduler: seeded storms keep every rule, then drain with the pool whole",
          "[core][sim]") {
  std::uint64_t ended = 0, preempted = 0, tokens = 0;
  std::uint64_t parked = 0, returned = 0, failed = 0, given_up = 0, hits = 0, pauses = 0;
  std::uint64_t forks = 0, copies = 0;
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    INFO("seed " << seed);
    storm s(seed, seed > 350);
    s.blow(600);
    s.calm();
    s.world.run();
    s.world.send(drain{});
    s.world.run();
    s.world.require_whole();
    REQUIRE(s.world.stops == 1);
    parked += s.world.parks;
    returned += s.world.returns;
    failed += s.world.failed_moves;
    given_up += s.world.given_up;
    hits += s.world.hits;
    forks += s.world.forks;
    copies += s.world.copies;
    pauses += s.pauses;
    for (const auto& [id, c] : s.world.clients) {
      ended += c.ended;
      tokens += c.tokens.size();
    }
    preempted += s.world.preemptions;
  }
  CHECK(ended > 3000);  // the storms reach what they are for
  CHECK(preempted > 200);
  CHECK(tokens > 20'000);
  CHECK(parked > 300);
  CHECK(returned > 150);
  CHECK(failed > 50);
  CHECK(given_up > 10);
  CHECK(hits > 500);
  CHECK(forks > 200);
  CHECK(copies > 100);
  CHECK(pauses > 300);
}

TEST_CASE("scheduler: a request's tokens in a storm are those it gets alone", "[core][sim]") {
  std::uint64_t compared = 0;
  for (std::uint64_t seed = 1000; seed < 1060; ++seed) {
    INFO("seed " << seed);
    storm s(seed);
    s.blow(600);
    s.calm();
    s.world.run();
    for (auto& [id, request] : s.asked) {
      auto& c = s.world.client(id);
      if (c.ended == 0 || c.tokens.empty()) continue;
      if (request.score_prompt)
        REQUIRE(c.scores ==
                std::vector<token_id>(request.prompt.begin() + 1, request.prompt.end()));
      auto limits = roomy_limits();
      scheduler_world alone(limits);
      alone.end_token_every = s.world.end_token_every;
      request.deadlines = {};
      alone.send(request);
      alone.run(static_cast<int>(c.tokens.size()) + 2);
      auto expected = alone.client(id).tokens;
      REQUIRE(expected.size() >= c.tokens.size());
      expected.resize(c.tokens.size());
      REQUIRE(c.tokens == expected);
      ++compared;
    }
  }
  CHECK(compared > 300);
}

TEST_CASE("scheduler: stop in a storm ends everyone after at most the step in flight",
          "[core][sim]") {
  for (std::uint64_t seed = 2000; seed < 2100; ++seed) {
    INFO("seed " << seed);
    storm s(seed);
    s.blow(200);
    s.world.send(stop{end_reason::shutdown, "going down"});
    if (s.world.in_flight()) {
      REQUIRE(s.world.stops == 0);
      s.world.finish_step();
    }
    s.world.mover_stuck = false;
    while (s.world.moving()) {  // one chunk each at most: what is under way
      REQUIRE(s.world.move_one());
    }
    REQUIRE(s.world.stops == 1);
    REQUIRE(!s.world.in_flight());
    s.world.settle_allocator();
    s.world.require_whole();
  }
}
