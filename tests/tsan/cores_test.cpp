// The machines are values: worlds on several threads share nothing, whatever they do, and a copy
// handed to another thread goes on by itself. Each thread's history must be the one the same seed
// has alone.
#include <catch2/catch.hpp>
#include <deque>
#include <random>
#include <thread>
#include <variant>

#include "actors/core/blocks/block_ledger.hpp"
#include "actors/core/scheduler_machine.hpp"
#include "config/bytes/checksum.hpp"
#include "tests/actors/core/session/session_bench.hpp"

using namespace troupe;
using namespace troupe::core;

namespace {

scheduler_limits small_pool() {
  scheduler_limits l;
  l.max_num_seqs = 4;
  l.max_num_batched_tokens = 48;
  l.max_num_queued_reqs = 64;
  l.block_size = 4;
  l.num_blocks = 24;
  l.model_context = 96;
  l.end_tokens = {0};
  l.vocab = 1000;
  l.park = true;
  return l;
}

/// Scheduler and ledger joined without delay, with a device that draws from the seed and a mover
/// that always manages. Copyable, as the machines are.
class world {
 public:
  explicit world(std::uint64_t seed) : random_(seed) {}

  void go_on(int events) {
    for (int i = 0; i < events; ++i) {
      now_ += 500;
      const auto dice = random_() % 8;
      if (dice == 0) submit_one();
      if (dice == 1 && last_ > 0)
        fire(cancel{{1 + random_() % last_}, end_reason::client_gone, now_});
      if (dice == 2) fire(tick{});
      if (plan_) step();
    }
  }
  std::string broken() const { return machine_.check() + ledger_.check(); }
  std::size_t tokens() const { return told_.size(); }
  bool same_as(const world& other) const {
    return machine_ == other.machine_ && ledger_ == other.ledger_ && told_ == other.told_;
  }

 private:
  template <class Event>
  void fire(const Event& event) {
    effects out;
    machine_.on(event, now_, out);
    for (auto& e : out) waiting_.push_back(std::move(e));
    if (std::exchange(busy_, true)) return;
    while (!waiting_.empty()) {
      const auto e = std::move(waiting_.front());
      waiting_.pop_front();
      std::visit([this](const auto& x) { answer(x); }, e);
    }
    busy_ = false;
  }
  template <class Other>
  void answer(const Other&) {}
  void answer(const reserve& x) {
    const auto got = ledger_.reserve(x);
    got ? fire(granted{x.lease, got->blocks, got->cached}) : fire(denied{x.lease});
  }
  void answer(const publish& x) { ledger_.publish(x); }
  void answer(const release& x) { fire(released{x.lease, ledger_.release(x).usable}); }
  void answer(const move_out& x) { fire(moved{x.move, move_outcome::ok}); }
  void answer(const move_in& x) { fire(moved{x.move, move_outcome::ok}); }
  void answer(const step_plan& x) { plan_ = x; }
  void answer(const tokens_out& x) {
    told_.push_back({x.request.value, x.token ? x.token->token : -1});
  }
  void submit_one() {
    submit s;
    s.request = {++last_};
    for (auto n = 1 + random_() % 30; n > 0; --n)
      s.prompt.push_back(static_cast<token_id>(1 + random_() % 3));
    s.decode.max_tokens = 1 + static_cast<std::uint32_t>(random_() % 40);
    fire(s);
  }
  void step() {
    const auto plan = *std::exchange(plan_, std::nullopt);
    step_done done{plan.step, {}, 400};
    for (const auto& item : plan.items) {
      item_result r;
      r.request = item.request;
      if (item.sample) r.sampled = scored_token{static_cast<token_id>(random_() % 60), 0, {}, 0};
      done.items.push_back(std::move(r));
    }
    fire(done);
  }

  std::mt19937_64 random_;
  scheduler_machine machine_{small_pool()};
  block_ledger ledger_{{small_pool().num_blocks, small_pool().block_size, true}};
  std::optional<step_plan> plan_;
  std::deque<effect> waiting_;
  bool busy_ = false;
  time_us now_ = 1'000'000;
  std::uint64_t last_ = 0;
  std::vector<std::pair<std::uint64_t, token_id>> told_;
};

/// body(i) for i < count, each on a thread of its own.
template <class Body>
auto each_on_its_thread(std::size_t count, Body body) {
  std::vector<std::optional<decltype(body(0))>> results(count);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < count; ++i) threads.emplace_back([&, i] { results[i] = body(i); });
  for (auto& t : threads) t.join();
  return results;
}

std::string session_story(std::uint64_t seed) {
  std::string shown;
  std::mt19937_64 random(seed);
  for (int round = 0; round < 40; ++round) {
    auto rules = core::test::options({"stop", "end of it"});
    rules.stop.boundary = round % 2 ? stop_boundary::word : stop_boundary::none;
    core::test::bench b{rules};
    for (int i = 0; i < 30; ++i) {
      b.token(random() % 25 == 0 ? " stop" : " st", static_cast<int>(random() % 50));
      if (random() % 2) b.machine.on_delivered(b.out);
    }
    b.end();
    shown += b.text() + "\n";
  }
  return shown;
}

}  // namespace

TEST_CASE("cores: schedulers and ledgers on four threads have the histories they have alone",
          "[tsan]") {
  std::uint64_t tokens = 0;
  for (std::uint64_t seed = 0; seed < 24; seed += 4) {
    const auto worlds = each_on_its_thread(4, [&](std::size_t i) {
      world w{seed + i};
      w.go_on(600);
      return w;
    });
    for (std::size_t i = 0; i < 4; ++i) {
      world alone{seed + i};
      alone.go_on(600);
      CHECK(worlds[i]->same_as(alone));
      CHECK(worlds[i]->broken() == "");
      tokens += alone.tokens();
    }
  }
  CHECK(tokens > 2'000);
}

TEST_CASE("cores: a copied world goes on by itself on another thread", "[tsan]") {
  world first{77};
  first.go_on(300);
  const auto worlds = each_on_its_thread(4, [&](std::size_t) {
    world mine = first;  // copied there, from one they all read
    mine.go_on(300);
    return mine;
  });
  first.go_on(300);
  for (const auto& w : worlds) CHECK(w->same_as(first));
}

TEST_CASE("cores: sessions, stop matchers and checksums on four threads answer as they do alone",
          "[tsan]") {
  const auto stories = each_on_its_thread(4, [](std::size_t i) { return session_story(i); });
  for (std::size_t i = 0; i < 4; ++i) CHECK(stories[i] == session_story(i));
  CHECK(stories[0] != stories[1]);
  const std::vector<std::byte> block(4096, std::byte{7});
  const auto sums = each_on_its_thread(4, [&](std::size_t) { return checksum64(block); });
  for (const auto sum : sums) CHECK(sum == sums[0]);
}
