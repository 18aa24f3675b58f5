// The audit of the whole engine on real threads: it finds nothing in an engine that preempts, parks
// and loses clients, and finds a planted leak. And a frozen executor, which health reports.
#include <catch2/catch.hpp>
#include <random>
#include <thread>

#include "actors/api/kv_audit.hpp"
#include "actors/runtime.hpp"
#include "tests/support/fake_backend.hpp"
#include "tests/support/recording.hpp"
#include "tests/support/temporary_file.hpp"
#include "tests/support/tiny_llama.hpp"

using namespace troupe;
using namespace std::chrono_literals;

namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr bool violations_abort = true;  // TROUPE_ABORT_ON_VIOLATION
#else
constexpr bool violations_abort = false;
#endif

struct audited_engine {
  explicit audited_engine(std::uint32_t blocks, runtime_config settings = {}) {
    settings.model = file.path();
    device = std::make_shared<test::fake_backend>(16, blocks, 36, 125);
    engine = std::make_unique<runtime>(settings, gpu::load_model(file.path()), device, watcher,
                                       [](const std::string&) {});
  }
  ~audited_engine() {
    device->let_go();
    device->let_copies_go();
  }

  struct running {
    std::shared_ptr<test::recording_sink> sink = std::make_shared<test::recording_sink>();
    std::shared_ptr<core::generation> handle;
  };
  /// Nobody takes the text: it comes with the end.
  running start(std::vector<token_id> prompt, std::uint32_t max_tokens) {
    core::generation_request request;
    request.prompt = std::move(prompt);
    request.decode.max_tokens = max_tokens;
    running out;
    out.handle = engine->submit(std::move(request), out.sink);
    return out;
  }

  core::kv_report audit() {
    struct parts {
      std::mutex mutex;
      std::condition_variable changed;
      core::kv_report report;
      int count = 0;
    };
    const auto got = std::make_shared<parts>();
    engine->probe()->audit([got](core::kv_part part) {
      const std::lock_guard lock(got->mutex);
      if (auto* s = std::get_if<core::kv_scheduler_part>(&part))
        got->report.scheduler = std::move(*s);
      if (auto* a = std::get_if<core::kv_allocator_part>(&part))
        got->report.allocator = std::move(*a);
      if (auto* m = std::get_if<core::kv_mover_part>(&part)) got->report.mover = std::move(*m);
      ++got->count;
      got->changed.notify_all();
    });
    std::unique_lock lock(got->mutex);
    REQUIRE(got->changed.wait_for(lock, 300s, [&] { return got->count == 3; }));
    return got->report;
  }

  test::temporary_file file{test::tiny_llama_bytes()};
  test::recording_observer watcher;
  std::shared_ptr<test::fake_backend> device;
  std::unique_ptr<runtime> engine;
};

using problems = std::vector<std::string>;

}  // namespace

TEST_CASE("audit: an idle engine is sound and all its blocks are free", "[actor]") {
  audited_engine w(32);
  const auto report = w.audit();
  CHECK(find_problems(report) == problems{});
  CHECK(report.allocator.counts.free == 32);
  CHECK(report.allocator.blocks.size() == 32);
  CHECK(report.scheduler.requests.empty());
  CHECK_FALSE(report.scheduler.step);
  CHECK(report.mover.counts.total == 0);
}

TEST_CASE("audit: a held step shows which requests it names, what they hold and how they got there",
          "[actor]") {
  audited_engine w(32);
  w.device->hold();
  auto one = w.start(std::vector<token_id>(40, 50), 20);
  REQUIRE(w.device->wait_started(1));
  const auto report = w.audit();
  CHECK(find_problems(report) == problems{});
  REQUIRE(report.scheduler.step);
  CHECK(report.scheduler.step->requests == std::vector<core::request_id>{one.handle->id()});
  REQUIRE(report.scheduler.requests.size() == 1);
  const auto& line = report.scheduler.requests.front();
  CHECK(std::string(line.state) == "prefilling_in_flight");
  REQUIRE(line.blocks);
  CHECK(line.blocks->size() >= 3);
  CHECK(report.allocator.counts.leased >= 3);
  std::string events;
  for (const auto& e : line.events) events += std::string(e.what) + " ";
  CHECK(events.starts_with("admitted reserve granted "));
  CHECK(events.find("step_plan ") != events.npos);
  w.device->let_go();
  REQUIRE(one.sink->wait_end());
  CHECK(w.watcher.wait_whole());
}

TEST_CASE("audit: every audit of an engine that preempts, parks and loses clients is sound",
          "[actor]") {
  runtime_config settings;
  settings.max_num_seqs = 8;
  settings.kv_transfer_chunk_blocks = 2;
  settings.kv_offloading_bytes = GENERATE(0u, 12u * 16 * sizeof(token_id));
  audited_engine w(12, settings);
  w.device->step_time = 100us;
  std::mt19937 random(7);
  std::vector<audited_engine::running> all;
  bool moved = false;
  for (int i = 0; i < 60; ++i) {
    all.push_back(w.start({40 + i % 20, 50, 60}, 40 + random() % 17));
    if (i % 3 == 2)
      all[random() % all.size()].handle->cancel(core::end_reason::client_gone, w.engine->now());
    const auto report = w.audit();
    CHECK(find_problems(report) == problems{});
    moved |= !report.mover.copies.empty();
    if (i % 8 == 7) all[static_cast<std::size_t>(i) - 7].sink->wait_end();
  }
  for (const auto& one : all) {
    REQUIRE(one.sink->wait_end());
    CHECK(find_problems(w.audit()) == problems{});
  }
  CHECK(w.watcher.wait_whole());
  CHECK(w.watcher.preemptions > 0);
  CHECK(moved == (settings.kv_offloading_bytes > 0));
  CHECK(w.audit().mover.counts.used == 0);
}

TEST_CASE("audit: a release that is lost is found, its blocks are quarantined and serving goes on",
          "[actor]") {
  if (violations_abort) return;
  runtime_config settings;
  settings.debug_endpoints = true;
  settings.plant_leak = 2;
  settings.enable_prefix_caching = false;
  audited_engine w(16, settings);
  REQUIRE(w.start({40, 41}, 20).sink->wait_end());
  CHECK(w.watcher.wait_whole());
  auto victim = w.start({42, 43, 44}, 40);  // 42 places: 3 blocks, asked for one ahead
  REQUIRE(victim.sink->wait_end());
  REQUIRE(w.watcher.wait([&] { return w.watcher.pool.quarantined > 0; }, 2s));
  REQUIRE(w.watcher.wait([&] { return !w.watcher.violations.empty(); }, 2s));
  const auto report = w.audit();
  CHECK(find_problems(report) == problems{});  // quarantined blocks are accounted for
  const auto& counts = report.allocator.counts;
  CHECK(counts.quarantined == 3);
  CHECK(counts.free == 13);
  CHECK(report.allocator.leaked == 3);
  CHECK(w.watcher.pool.leaked == 3);
  REQUIRE(w.watcher.violations.size() == 1);
  const auto& violation = w.watcher.violations.front();
  CHECK(violation.starts_with("3 blocks leaked, quarantined; no live request owns lease " +
                              std::to_string(victim.handle->id().value) + ".1 ("));
  CHECK(violation.find("release ") != violation.npos);
  CHECK(violation.find("ended ") != violation.npos);
  for (int i = 0; i < 10; ++i) REQUIRE(w.start({45, 46 + i}, 60).sink->wait_end());
  CHECK(w.watcher.wait([&] { return w.watcher.pool.used == 0; }));
  CHECK(w.audit().allocator.counts.quarantined == 3);
  CHECK(w.watcher.violations.size() == 1);
}

TEST_CASE(
    "audit: a frozen executor shows in health, and a request cancelled meanwhile goes with its "
    "step (C191)",
    "[actor]") {
  audited_engine w(32);
  w.engine->probe()->freeze(400);
  auto one = w.start({40, 41}, 1000);
  REQUIRE(one.sink->wait([&] { return one.sink->order == "a"; }));
  const auto frozen_at = std::chrono::steady_clock::now();
  std::this_thread::sleep_for(150ms);
  const auto health = w.engine->health();
  CHECK(health.stalled_us > 100'000);
  CHECK(health.running == 1);
  one.handle->cancel(core::end_reason::client_gone, w.engine->now());
  CHECK_FALSE(one.sink->wait([&] { return one.sink->ends > 0; }, 50ms));
  CHECK(std::string(w.audit().scheduler.requests.at(0).state) == "retiring");
  REQUIRE(one.sink->wait_end());
  CHECK(std::chrono::steady_clock::now() - frozen_at >= 350ms);
  CHECK(w.watcher.wait_whole());
  CHECK(w.device->steps_started() == 1);
  auto next = w.start({40, 41}, 5);  // the freeze is over
  REQUIRE(next.sink->wait_end());
  // The scheduler counts itself out behind the client's last message.
  for (int i = 0; i < 5000 && w.engine->health().running > 0; ++i) std::this_thread::sleep_for(1ms);
  CHECK(w.engine->health().stalled_us == 0);
}

TEST_CASE("audit: C191 a dead executor fails health at once, and waiting clients get their end",
          "[actor]") {
  audited_engine w(32);
  CHECK_FALSE(w.engine->health().failed);
  w.device->hold();
  auto one = w.start({40}, 100);
  REQUIRE(w.device->wait_started(1));
  w.engine->probe()->crash(core::engine_part::executor);
  w.device->let_go();
  REQUIRE(one.sink->wait_end());
  CHECK(one.sink->finish.reason == core::end_reason::engine_failed);
  // The runtime hears of the executor's end in a message of its own, beside the scheduler's.
  for (int i = 0; i < 60'000 && !w.engine->health().failed; ++i) std::this_thread::sleep_for(1ms);
  CHECK(w.engine->health().failed);
}

TEST_CASE(
    "audit: C037 a cancel while a decode step is in flight gives back what was written, at every "
    "block edge",
    "[actor]") {
  audited_engine w(32);
  w.device->step_time = 500us;  // the answer must not be over before the device is held
  const std::uint32_t lengths[] = {15, 16, 17, 31, 32, 33};
  for (int round = 0; round < 1000; ++round) {
    const auto length = lengths[round % 6];
    const auto before = w.device->steps_started();
    auto one = w.start(std::vector<token_id>(length, 40 + round % 50), 400);
    REQUIRE(w.device->wait_started(before + 2));  // the second one decodes
    w.device->hold();
    CHECK(w.audit().allocator.counts.leased >= (length + 16) / 16);
    one.handle->cancel(core::end_reason::client_gone, w.engine->now());
    w.device->let_go();
    REQUIRE(one.sink->wait_end());
  }
  CHECK(w.watcher.wait_whole());
  const auto report = w.audit();
  CHECK(find_problems(report) == problems{});
  CHECK(report.allocator.counts.free == 32);  // forgotten: its client left
}

TEST_CASE("audit: C032 at every idle point of a mixed load the pool is whole, without a drift",
          "[actor]") {
  runtime_config settings;
  settings.max_num_seqs = 32;
  settings.max_num_queued_reqs = 600;
  audited_engine w(64, settings);
  std::mt19937 random(32);
  for (int batch = 0; batch < 20; ++batch) {
    std::vector<audited_engine::running> all;
    for (int i = 0; i < 500; ++i) {
      const bool too_long = i % 10 == 9;
      const auto size = too_long ? 2000 : 1 + random() % 40;
      all.push_back(w.start(std::vector<token_id>(size, static_cast<token_id>(36 + random() % 90)),
                            1 + random() % 12));
      if (random() % 10 < 3)
        all[random() % all.size()].handle->cancel(core::end_reason::client_gone, w.engine->now());
    }
    for (const auto& one : all) REQUIRE(one.sink->wait_end());
    REQUIRE(w.watcher.wait_whole());
    const auto report = w.audit();
    CHECK(find_problems(report) == problems{});
    CHECK(report.allocator.counts.leased == 0);
    CHECK(report.allocator.counts.free + report.allocator.counts.cached == 64);
  }
  CHECK(w.watcher.wait([&] { return w.watcher.ends.size() == 10000; }));
}
