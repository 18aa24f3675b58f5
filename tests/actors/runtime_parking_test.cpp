// The actors together with a host tier: what a parked request says when it is back, and what a
// cancel waits for.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/actors/runtime_world.hpp"

using namespace troupe;
using namespace std::chrono_literals;
using test::ask;
using test::world;

namespace {

/// Eight requests that outgrow 12 blocks, with room for 64 blocks on the host tier.
struct crowd {
  explicit crowd(std::uint32_t chunk = 1) : w(12, settings(chunk)) {
    w.hold();  // until all are in, so that none is over before the others begin
    for (int i = 0; i < 8; ++i) all.push_back(w.start(ask({40 + i, 50, 60}, 57)));
    for (const auto& one : all) REQUIRE(one.sink->wait([&] { return one.sink->order == "a"; }));
  }
  static runtime_config settings(std::uint32_t chunk) {
    runtime_config out;
    out.max_num_seqs = 8;
    out.kv_offloading_bytes = 64 * 16 * sizeof(token_id);
    out.kv_transfer_chunk_blocks = chunk;
    out.kv_transfer_timeout_s = 0.3;
    return out;
  }
  void require_solo_answers() {
    for (int i = 0; i < 8; ++i) {
      auto& sink = *all[static_cast<std::size_t>(i)].sink;
      REQUIRE(sink.wait_end());
      CHECK(sink.text == w.expected_text({40 + i, 50, 60}, 57));
    }
  }
  void require_whole() {
    CHECK(w.watcher.wait_whole());
    CHECK(w.watcher.wait([&] { return w.watcher.host.used == 0; }));
    CHECK(w.watcher.violations.empty());
    CHECK(w.watcher.host.leaked == 0);
  }
  std::size_t moved(core::move_outcome outcome) {
    std::lock_guard lock(w.watcher.mutex);
    return static_cast<std::size_t>(
        std::count_if(w.watcher.moves.begin(), w.watcher.moves.end(),
                      [&](const auto& m) { return m.outcome == outcome; }));
  }

  world w;
  std::vector<world::running> all;
};

}  // namespace

TEST_CASE("runtime: parked requests come back with the answers they give alone", "[actor]") {
  crowd c(GENERATE(1u, 32u));
  c.w.let_go();
  c.require_solo_answers();
  CHECK(c.w.watcher.parks > 0);
  CHECK(c.moved(core::move_outcome::ok) >= 2);
  c.require_whole();
}

TEST_CASE("runtime: copies that fail or come back corrupt end in a recompute, and are counted",
          "[actor]") {
  crowd c;
  SECTION("failed") {
    c.w.device->fail_copies = 3;
    c.w.let_go();
    c.require_solo_answers();
    // How many copies are tried is a matter of speed; each that was told to fail is counted.
    CHECK(c.w.watcher.wait([&] {
      return std::count_if(c.w.watcher.moves.begin(), c.w.watcher.moves.end(), [](const auto& m) {
               return m.outcome == core::move_outcome::failed;
             }) == 3 - static_cast<int>(c.w.device->fail_copies.load());
    }));
    CHECK(c.moved(core::move_outcome::failed) >= 1);
  }
  SECTION("corrupt") {
    c.w.device->corrupt_copies = 1;
    c.w.let_go();
    c.require_solo_answers();
    CHECK(c.moved(core::move_outcome::corrupt) <= 1);  // where the spoilt copy was wanted again
  }
  c.require_whole();
}

TEST_CASE(
    "runtime: C157 a copy that hangs stops no other request, and its blocks come back when it ends",
    "[actor]") {
  crowd c;
  c.w.device->hold_copies();
  c.w.let_go();
  REQUIRE(c.w.device->wait_copies_started(1));
  REQUIRE(c.w.watcher.wait([&] { return c.w.watcher.moves.size() == 1; }));
  CHECK(c.moved(core::move_outcome::late) == 1);
  c.require_solo_answers();  // in the rest of the pool
  CHECK(c.w.watcher.pool.used > 0);
  c.w.device->let_copies_go();
  c.require_whole();
}

TEST_CASE(
    "runtime: a cancel while a chunk is copied ends when that chunk does, not before and not later",
    "[actor]") {
  crowd c;
  c.w.device->hold_copies();
  c.w.let_go();
  REQUIRE(c.w.device->wait_copies_started(1));
  const auto started = c.w.device->copies_started();
  for (const auto& one : c.all)
    one.handle->cancel(core::end_reason::client_gone, c.w.engine->now());
  CHECK(c.w.watcher.wait(
      [&] { return c.w.watcher.ends.size() == 7; }));  // all but the one that is copied
  CHECK(c.w.watcher.pool.used > 0);
  c.w.device->let_copies_go();
  CHECK(c.w.watcher.wait([&] { return c.w.watcher.ends.size() == 8; }));
  CHECK(c.w.device->copies_started() == started);
  c.require_whole();
}

TEST_CASE("runtime: equal prompts share their blocks once they are computed", "[actor]") {
  world w;
  std::vector<token_id> prompt;
  for (token_id t = 0; t < 40; ++t) prompt.push_back(36 + t);
  auto first = w.start(ask(prompt, 20));
  REQUIRE(first.sink->wait_end());
  CHECK(first.sink->finish.usage.cached == 0);
  auto second = w.start(ask(prompt, 20));
  REQUIRE(second.sink->wait_end());
  CHECK(second.sink->finish.usage.cached == 32);
  CHECK(second.sink->text == first.sink->text);
  auto salted = ask(prompt, 20);
  salted.cache_salt = "another";
  auto third = w.start(salted);
  REQUIRE(third.sink->wait_end());
  CHECK(third.sink->finish.usage.cached == 0);
  CHECK(third.sink->text == first.sink->text);
  CHECK(w.watcher.wait_whole());
  CHECK(w.watcher.prefix_hit == 32);
  CHECK(w.watcher.pool.cached > 0);
}
