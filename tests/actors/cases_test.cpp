// Public failures of runtimes, by their case ids, with the actors on real threads: cancels while
// something else is awaited, deaths, slow readers, the end of the process.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "actors/api/kv_audit.hpp"
#include "tests/actors/runtime_world.hpp"
#include "tests/support/source_dir.hpp"

using namespace troupe;
using namespace std::chrono_literals;
using clock_type = std::chrono::steady_clock;
using test::ask;
using test::world;

namespace {

constexpr std::uint64_t host_blocks = 64;

runtime_config with_host_tier(std::uint32_t seats = 8) {
  runtime_config out;
  out.max_num_seqs = seats;
  out.kv_offloading_bytes = host_blocks * 16 * sizeof(token_id);
  out.kv_transfer_chunk_blocks = 1;
  return out;
}

std::vector<token_id> long_prompt(int count, int seed = 0) {
  std::vector<token_id> out;
  for (int i = 0; i < count; ++i) out.push_back(36 + (i * 7 + seed * 13) % 90);
  return out;
}

void leave(world& w, const world::running& one) {
  one.handle->cancel(core::end_reason::client_gone, w.engine->now());
}

void require_sound(world& w) {
  CHECK(w.watcher.wait_whole());
  CHECK(w.watcher.violations.empty());
  CHECK(w.fatal.empty());
}

}  // namespace

TEST_CASE(
    "runtime: C044 a cancel before any block is owned is clean, with host tier and prefix cache",
    "[actor]") {
  world w(32, with_host_tier(1));
  auto first = w.start(ask(long_prompt(40), 30));
  REQUIRE(first.sink->wait_end());  // fills the prefix cache
  REQUIRE(w.watcher.wait([&] { return w.watcher.ends.size() == 1; }));
  w.hold();
  auto running = w.start(ask({40, 41}, 20));
  // Before the others: else one of them may be part of the step that is held.
  REQUIRE(running.sink->wait([&] { return running.sink->order == "a"; }));
  std::vector<world::running> queued;
  for (int i = 0; i < 6; ++i) queued.push_back(w.start(ask(long_prompt(40, i % 2), 20)));
  for (const auto& one : queued) REQUIRE(one.sink->wait([&] { return one.sink->order == "a"; }));
  for (const auto& one : queued) leave(w, one), leave(w, one);
  for (const auto& one : queued) REQUIRE(one.sink->wait_end());
  REQUIRE(w.watcher.wait([&] { return w.watcher.ends.size() == 7; }));
  for (std::size_t i = 1; i < 7; ++i) {
    CHECK(w.watcher.ends[i].reason == core::end_reason::client_gone);
    CHECK(w.watcher.ends[i].phase == core::life_phase::queued);
  }
  w.let_go();
  REQUIRE(running.sink->wait_end());
  CHECK(running.sink->text == w.expected_text({40, 41}, 20));
  auto next = w.start(ask(long_prompt(40), 10));
  REQUIRE(next.sink->wait_end());
  CHECK(next.sink->finish.usage.cached == 32);
  CHECK(next.sink->text == w.expected_text(long_prompt(40), 10));
  require_sound(w);
}

TEST_CASE(
    "runtime: C046 the first request after the start may be an aborted one, with every feature",
    "[actor]") {
  const bool cache = GENERATE(true, false), host = GENERATE(true, false),
             scored = GENERATE(true, false);
  const int choices = GENERATE(1, 3);
  const int point =
      GENERATE(0, 1, 2, 3);  // at once, in the first step, amid the answer, the sink goes instead
  CAPTURE(cache, host, scored, choices, point);
  auto settings = host ? with_host_tier() : runtime_config{};
  settings.enable_prefix_caching = cache;
  settings.max_num_batched_tokens = 16;
  world w(32, settings);
  w.device->step_time = 100us;
  if (point == 1) w.hold();
  std::vector<world::running> all;
  for (int i = 0; i < choices; ++i) {
    auto request = ask(long_prompt(50), 300);
    request.decode.sampling.seed = static_cast<std::uint64_t>(i);
    if (scored) request.decode.top_logprobs = 2, request.echo = true;
    all.push_back(w.start(std::move(request)));
  }
  if (point == 1) REQUIRE(w.device->wait_started(1));
  if (point >= 2)
    for (const auto& one : all) REQUIRE(one.sink->wait([&] { return one.sink->text.size() > 2; }));
  for (auto& one : all) {
    if (point == 3)
      one.sink.reset();
    else
      leave(w, one);
  }
  if (point == 1) w.let_go();
  REQUIRE(w.watcher.wait([&] { return w.watcher.ends.size() == all.size(); }));
  for (const auto& record : w.watcher.ends) CHECK(record.reason == core::end_reason::client_gone);
  REQUIRE(w.watcher.wait_whole());
  auto next = w.start(ask(long_prompt(50), 12));
  REQUIRE(next.sink->wait_end());
  CHECK(next.sink->text == w.expected_text(long_prompt(50), 12));
  require_sound(w);
}

TEST_CASE("runtime: C047 requests that leave the queue never stop the one that runs", "[actor]") {
  runtime_config settings;
  settings.max_num_seqs = 1;
  world w(32, settings);
  w.device->step_time = 200us;
  auto a = w.start(ask({40, 41, 42}, 200));
  REQUIRE(a.sink->wait([&] { return !a.sink->text.empty(); }));
  for (int i = 0; i < 40 && a.sink->ends == 0; ++i) {
    auto b = w.start(ask({50 + i}, 50));
    if (i % 3 == 0) REQUIRE(b.sink->wait([&] { return !b.sink->order.empty(); }));
    if (i % 3 == 1)
      b.sink.reset();
    else
      leave(w, b);
  }
  REQUIRE(a.sink->wait_end());
  CHECK(a.sink->finish.reason == core::end_reason::length);
  CHECK(a.sink->text == w.expected_text({40, 41, 42}, 200));
  require_sound(w);
}

TEST_CASE(
    "runtime: C052 neither scheduler nor device ever waits for a reader, and no actor's messages "
    "pile up",
    "[actor]") {
  runtime_config settings;
  settings.max_num_seqs = 16;
  settings.max_outbound_bytes = 4096;
  settings.reader_stall_timeout_s = 0;  // for ever: only the bound counts here
  world w(200, settings);
  std::vector<world::running> stalled;
  w.hold();
  for (int i = 0; i < 12; ++i) {
    auto request = ask({40 + i, 50}, 150);
    request.decode.top_logprobs = 5;
    stalled.push_back(w.start(std::move(request), false));  // the first delta is never acknowledged
  }
  w.let_go();
  // Each gets one delta, and pauses within its bound.
  for (const auto& one : stalled)
    REQUIRE(one.sink->wait([&] { return one.sink->outstanding == 1; }));
  std::uint64_t last = 0;
  const auto quiet = [&] {
    const auto now = w.device->steps_started();
    return std::exchange(last, now) == now;
  };
  for (int i = 0; i < 100 && !quiet(); ++i) std::this_thread::sleep_for(20ms);
  REQUIRE(quiet());
  for (const auto& one : stalled) {
    CHECK(one.sink->ends == 0);
    CHECK(one.sink->order == "ad");
  }
  // A reader that keeps up has the device for itself.
  const auto before = w.device->steps_started();
  auto normal = w.start(ask({44, 45}, 100));
  REQUIRE(normal.sink->wait_end());
  CHECK(normal.sink->text == w.expected_text({44, 45}, 100));
  CHECK(w.device->steps_started() - before <= 105);
  // Who catches up gets all of its answer.
  for (const auto& one : stalled) one.sink->credit = one.handle, one.handle->delivered();
  for (int i = 0; i < 12; ++i) {
    auto& sink = *stalled[static_cast<std::size_t>(i)].sink;
    REQUIRE(sink.wait_end());
    CHECK(sink.finish.reason == core::end_reason::length);
    CHECK(sink.text == w.expected_text({40 + i, 50}, 150));
    CHECK(sink.pieces.size() + sink.finish.last.tokens.size() == 150);
  }
  require_sound(w);
}

TEST_CASE("runtime: C053 cancel, death and shutdown reach a session that is flooded and stalled",
          "[actor]") {
  const int how = GENERATE(0, 1, 2, 3);
  CAPTURE(how);
  runtime_config settings;
  settings.max_outbound_bytes = 4096;
  settings.reader_stall_timeout_s = how == 3 ? 0.2 : 0;
  world w(256, settings);
  w.device->step_time = 1ms;  // 900 steps: the sessions' word that nobody reads comes long before
  std::vector<world::running> all;
  for (int i = 0; i < 4; ++i) {
    auto request = ask({40 + i}, 900);  // far from done when they leave, on any machine
    request.decode.top_logprobs = 5;
    all.push_back(w.start(std::move(request), false));
  }
  for (const auto& one : all) REQUIRE(one.sink->wait([&] { return one.sink->order == "ad"; }));
  std::this_thread::sleep_for(30ms);
  // More confirmations than deltas, so some are late. Each lets about 46 tokens be computed (4,096
  // bytes of pieces), so three cannot finish an answer, however slow this thread is beside the
  // engine.
  for (int i = 0; i < 3; ++i)
    for (const auto& one : all)
      if (how != 3) one.handle->delivered();
  if (how == 0)
    for (const auto& one : all) leave(w, one);
  if (how == 1)
    for (auto& one : all) one.sink.reset();
  if (how == 2) w.engine->stop(core::end_reason::shutdown);
  if (how == 1)  // a paused session finds out only when it has text to deliver, so the connection
                 // must cancel
    for (const auto& one : all) leave(w, one);
  REQUIRE(w.watcher.wait([&] { return w.watcher.ends.size() == 4; }));
  const auto expected = how == 2   ? core::end_reason::shutdown
                        : how == 3 ? core::end_reason::slow_reader
                                   : core::end_reason::client_gone;
  for (const auto& record : w.watcher.ends) CHECK(record.reason == expected);
  require_sound(w);
}

TEST_CASE("runtime: C196 a cancel is obeyed while device, allocator or mover owe an answer",
          "[actor]") {
  runtime_config settings;
  settings.max_num_seqs = 2;
  world w(32, settings);
  w.hold();
  auto running = w.start(ask({40}, 50));
  REQUIRE(w.device->wait_started(1));
  auto granted = w.start(ask({41}, 50)), queued = w.start(ask({42}, 50));
  for (const auto* one : {&granted, &queued})
    REQUIRE(one->sink->wait([&] { return one->sink->order == "a"; }));
  const auto asked = clock_type::now();
  leave(w, granted);
  leave(w, queued);
  for (const auto* one : {&granted, &queued})
    REQUIRE(one->sink->wait([&] { return one->sink->ends == 1; }, 2s));
  CHECK(clock_type::now() - asked <
        50ms + 200ms);  // no step ends meanwhile; 200 ms for a busy machine
  CHECK(w.device->steps_started() == 1);
  // The end of everything waits for the step alone.
  auto late = w.start(ask({43}, 50));
  REQUIRE(late.sink->wait([&] { return late.sink->order == "a"; }));
  w.engine->stop(core::end_reason::shutdown);
  REQUIRE(late.sink->wait([&] { return late.sink->ends == 1; }, 2s));
  CHECK(running.sink->ends == 0);
  w.let_go();
  REQUIRE(running.sink->wait_end());
  CHECK(w.engine->wait_stopped(5s));
  require_sound(w);
}

TEST_CASE("actors: C196 no actor ever blocks on another's answer", "[actor]") {
  int files = 0;
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(troupe::test::source_dir() + "/actors")) {
    if (entry.path().extension() != ".cpp" && entry.path().extension() != ".hpp") continue;
    ++files;
    std::ifstream file{entry.path()};
    std::stringstream text;
    text << file.rdbuf();
    CAPTURE(entry.path());
    for (const char* blocking : {".await(", ".receive(", "scoped_actor", "caf::infinite"})
      CHECK(text.str().find(blocking) == std::string::npos);
  }
  CHECK(files > 30);
}

TEST_CASE("runtime: C197 ten requests in all states end by name when an engine actor dies",
          "[actor]") {
  const auto role = GENERATE(core::engine_part::executor, core::engine_part::mover,
                             core::engine_part::allocator, core::engine_part::scheduler);
  const bool amid_step = GENERATE(true, false);
  CAPTURE(static_cast<int>(role), amid_step);
  world w(12, with_host_tier(4));  // 4 run, and some of them are parked; 6 wait
  w.device->step_time = 300us;
  std::vector<world::running> all;
  for (int i = 0; i < 10; ++i) all.push_back(w.start(ask({40 + i, 50, 60}, 120)));
  REQUIRE(all[0].sink->wait([&] { return all[0].sink->text.size() > 2; }));
  if (amid_step) w.hold(), w.device->wait_started(w.device->steps_started() + 1);
  w.engine->probe()->crash(role);
  // A running step cannot be interrupted; the other actors end at once.
  if (amid_step && role != core::engine_part::executor)
    for (const auto& one : all) REQUIRE(one.sink->wait([&] { return one.sink->ends == 1; }, 5s));
  w.let_go();
  for (const auto& one : all) {
    REQUIRE(one.sink->wait_end());
    CHECK(one.sink->ends == 1);
    if (one.sink->finish.reason != core::end_reason::length)
      CHECK(one.sink->finish.reason == core::end_reason::engine_failed);
  }
  REQUIRE(w.watcher.wait([&] { return !w.fatal.empty(); }));
  CHECK(w.fatal.size() == 1);
  CHECK(w.engine->health().failed);
}

TEST_CASE(
    "runtime: C199 the end never hangs, from idle, amid a step, amid copies, with readers that "
    "stall",
    "[actor]") {
  const int scene = GENERATE(0, 1, 2, 3);
  CAPTURE(scene);
  for (int round = 0; round < 25; ++round) {
    world w(12, with_host_tier());
    w.device->step_time = 300us;
    if (scene == 2) w.device->copy_time = 1ms;
    std::vector<world::running> all;
    for (int i = 0; i < 8 && scene > 0; ++i)
      all.push_back(w.start(ask({40 + i, 50, 60}, scene == 2 ? 57 : 100), scene != 3));
    if (scene > 0) w.device->wait_started(static_cast<std::uint64_t>(1 + round));
    if (scene == 2) w.watcher.wait([&] { return w.watcher.parks > 0; }, 300ms);
    const auto asked = clock_type::now();
    w.engine.reset();
    CHECK(clock_type::now() - asked < 5s);
    for (const auto& one : all) CHECK(one.sink->ends == 1);
  }
}
