// The actors together, on real threads, with a backend whose next token depends on the whole
// history it was given.
#include "actors/runtime.hpp"

#include <catch2/catch.hpp>
#include <mutex>
#include <optional>
#include <thread>

#include "actors/api/kv_audit.hpp"
#include "tests/actors/runtime_world.hpp"

using namespace troupe;
using namespace std::chrono_literals;
using test::ask;
using test::recording_sink;
using test::world;

TEST_CASE("runtime: a request streams its answer and the pool is whole afterwards", "[actor]") {
  world w;
  auto one = w.start(ask({40, 41, 42}, 20));
  REQUIRE(one.sink->wait_end());
  CHECK(one.sink->order.front() == 'a');
  CHECK(one.sink->order.back() == 'e');
  CHECK(one.sink->prompt == 3);
  CHECK(one.sink->text == w.expected_text({40, 41, 42}, 20));
  CHECK(one.sink->finish.reason == core::end_reason::length);
  CHECK(one.sink->finish.usage.completion == 20);
  CHECK(w.watcher.wait_whole());
  CHECK(w.watcher.violations.empty());
}

TEST_CASE(
    "runtime: answers of requests that run together equal their solo answers, through preemptions",
    "[actor]") {
  runtime_config settings;
  settings.max_num_seqs = 8;
  world w(12, settings);  // 192 tokens for 8 sequences of up to 60
  std::vector<world::running> all;
  w.hold();  // until all are in, so that none is over before the others begin
  for (int i = 0; i < 8; ++i) all.push_back(w.start(ask({40 + i, 50, 60}, 57)));
  for (const auto& one : all) REQUIRE(one.sink->wait([&] { return one.sink->order == "a"; }));
  w.let_go();
  for (int i = 0; i < 8; ++i) {
    REQUIRE(all[static_cast<std::size_t>(i)].sink->wait_end());
    CHECK(all[static_cast<std::size_t>(i)].sink->text == w.expected_text({40 + i, 50, 60}, 57));
  }
  CHECK(w.watcher.preemptions > 0);
  CHECK(w.watcher.wait_whole());
}

TEST_CASE("runtime: a cancel during a step frees the blocks when the step is done, and not before",
          "[actor]") {
  world w;
  auto one = w.start(ask({40, 41}, 100));
  w.hold();
  REQUIRE(w.device->wait_started(1));
  // The step in flight names the lease.
  one.handle->cancel(core::end_reason::client_gone, w.engine->now());
  one.handle->cancel(core::end_reason::cancelled, w.engine->now());  // repeated: no effect
  CHECK_FALSE(one.sink->wait([&] { return one.sink->ends > 0; }, 50ms));
  CHECK(w.watcher.wait([&] { return w.watcher.pool.used > 0; }));
  const auto started = w.device->steps_started();
  w.let_go();
  REQUIRE(one.sink->wait_end());
  CHECK(one.sink->finish.reason == core::end_reason::client_gone);
  CHECK(w.watcher.wait_whole());
  CHECK(w.device->steps_started() <= started + 1);
  CHECK(w.watcher.wait([&] { return w.watcher.latencies.size() == 1; }));
}

TEST_CASE("runtime: a sink that is gone ends its request", "[actor]") {
  world w;
  w.device->step_time = 200us;
  auto one = w.start(ask({40}, 400));
  one.sink->wait([&] { return one.sink->text.size() > 3; });
  one.sink.reset();
  REQUIRE(w.watcher.wait([&] { return w.watcher.ends.size() == 1; }));
  CHECK(w.watcher.ends[0].reason == core::end_reason::client_gone);
  CHECK(w.watcher.wait_whole());
}

TEST_CASE(
    "runtime: a sink that is dropped while it owes its credit ends its request at once, paused or "
    "not",
    "[actor]") {
  const bool paused = GENERATE(false, true);
  CAPTURE(paused);
  runtime_config settings;
  settings.max_outbound_bytes = paused ? 4096 : 1 << 20;
  world w(64, settings);
  w.device->step_time = 1ms;
  auto request = ask({40, 41}, 200);
  request.decode.top_logprobs = 0;  // pieces weigh more than their text
  auto one = w.start(std::move(request), false);
  REQUIRE(one.sink->wait([&] { return !one.sink->text.empty(); }));
  if (paused) {
    std::size_t steps = 0;
    do steps = w.watcher.steps.size();
    while (w.watcher.wait([&] { return w.watcher.steps.size() > steps; }, 200ms));
  }
  one.sink.reset();
  REQUIRE(w.watcher.wait([&] { return w.watcher.ends.size() == 1; },
                         5s));  // the time for a stall is 30 s
  CHECK(w.watcher.ends[0].reason == core::end_reason::client_gone);
  CHECK(w.watcher.wait_whole());
}

TEST_CASE("runtime: a session that dies of what its client does with its end is recorded once",
          "[actor]") {
  struct throwing_sink : recording_sink {
    void end(core::generation_end) override { throw std::runtime_error("client code failed"); }
  };
  world w;
  const auto bad = std::make_shared<throwing_sink>();
  const auto handle = w.engine->submit(ask({45}, 3), std::weak_ptr<core::generation_sink>(bad));
  REQUIRE(w.watcher.wait([&] { return !w.watcher.ends.empty(); }, 5s));
  CHECK(w.watcher.ends[0].reason == core::end_reason::length);
  CHECK(w.watcher.ends[0].usage.completion == 3);
  CHECK_FALSE(w.watcher.wait([&] { return w.watcher.ends.size() > 1; }, 50ms));
  CHECK(w.watcher.wait_whole());
}

TEST_CASE("runtime: a session that dies is a cancel, and its neighbour's answer does not change",
          "[actor]") {
  struct throwing_sink : recording_sink {
    void delta(core::generation_delta) override { throw std::runtime_error("client code failed"); }
  };
  world w;
  auto bad = std::make_shared<throwing_sink>();
  auto neighbour = w.start(ask({44}, 50));
  auto handle = w.engine->submit(ask({45}, 300), std::weak_ptr<core::generation_sink>(bad));
  REQUIRE(neighbour.sink->wait_end());
  CHECK(neighbour.sink->text == w.expected_text({44}, 50));
  REQUIRE(w.watcher.wait([&] { return w.watcher.ends.size() == 2; }));
  CHECK(std::any_of(w.watcher.ends.begin(), w.watcher.ends.end(), [](const auto& record) {
    return record.reason == core::end_reason::session_crash;
  }));
  CHECK(w.watcher.wait_whole());
}

TEST_CASE("runtime: only one delta is outstanding, the rest is coalesced", "[actor]") {
  world w;
  auto one = w.start(ask({40, 41}, 60), false);
  REQUIRE(one.sink->wait_end());
  CHECK(one.sink->order == "ade");
  CHECK(one.sink->text == w.expected_text({40, 41}, 60));
}

TEST_CASE("runtime: a reader that never takes its answer ends as slow_reader at the limit",
          "[actor]") {
  runtime_config settings;
  settings.max_outbound_bytes = 4096;
  settings.reader_stall_timeout_s = 0.1;
  world w(64, settings);
  auto request = ask({40, 41}, 200);
  request.decode.top_logprobs = 0;  // pieces weigh more than their text
  auto one = w.start(std::move(request), false);
  REQUIRE(one.sink->wait_end());
  CHECK(one.sink->finish.reason == core::end_reason::slow_reader);
  CHECK(one.sink->finish.message == "the reader did not catch up within 100 ms");
  CHECK(one.sink->finish.usage.completion < 120);  // nothing was computed meanwhile
  CHECK(w.watcher.wait_whole());
}

TEST_CASE("runtime: a failed step ends the requests in it by name and the engine goes on",
          "[actor]") {
  world w;
  w.device->fail_next = true;
  auto one = w.start(ask({40}, 5));
  REQUIRE(one.sink->wait_end());
  CHECK(one.sink->finish.reason == core::end_reason::step_failed);
  auto two = w.start(ask({40}, 5));
  REQUIRE(two.sink->wait_end());
  CHECK(two.sink->finish.reason == core::end_reason::length);
  CHECK(w.watcher.wait_whole());
}

TEST_CASE(
    "runtime: the death of scheduler, allocator, executor or mover ends every session by name and "
    "is reported once",
    "[actor]") {
  const auto role = GENERATE(core::engine_part::scheduler, core::engine_part::allocator,
                             core::engine_part::executor, core::engine_part::mover);
  runtime_config settings;
  settings.kv_offloading_bytes = 4096;
  world w(32, settings);
  w.device->step_time = 500us;
  auto one = w.start(ask({40}, 300));
  auto two = w.start(ask({41}, 300));
  REQUIRE(one.sink->wait([&] { return one.sink->text.size() > 2; }));
  w.engine->probe()->crash(role);
  REQUIRE(one.sink->wait_end());
  REQUIRE(two.sink->wait_end());
  CHECK(one.sink->finish.reason == core::end_reason::engine_failed);
  CHECK(two.sink->finish.reason == core::end_reason::engine_failed);
  REQUIRE(w.watcher.wait([&] { return !w.fatal.empty(); }));
  CHECK(w.engine->health().failed);
  auto late = w.start(ask({42}, 5));  // a request after the failure gets the same end
  REQUIRE(late.sink->wait_end());
  CHECK(late.sink->finish.reason == core::end_reason::engine_failed);
  CHECK(w.fatal.size() == 1);
}

TEST_CASE("runtime: health reports how long no step has retired while work waits", "[actor]") {
  world w;
  CHECK(w.engine->health().stalled_us == 0);
  w.hold();
  auto one = w.start(ask({40}, 3));
  REQUIRE(w.device->wait_started(1));
  std::this_thread::sleep_for(60ms);
  CHECK(w.engine->health().stalled_us > 40'000);
  CHECK(w.engine->health().running == 1);
  w.let_go();
  REQUIRE(one.sink->wait_end());
  CHECK(w.watcher.wait_whole());
  std::this_thread::sleep_for(5ms);
  CHECK(w.engine->health().stalled_us == 0);
}

TEST_CASE("runtime: drain lets running requests finish and refuses new ones by name", "[actor]") {
  world w;
  w.device->step_time = 300us;
  auto one = w.start(ask({40}, 80));
  REQUIRE(one.sink->wait([&] { return !one.sink->text.empty(); }));
  w.engine->drain();
  auto late = w.start(ask({41}, 5));
  REQUIRE(late.sink->wait_end());
  CHECK(late.sink->finish.why_refused == core::refusal::draining);
  REQUIRE(one.sink->wait_end());
  CHECK(one.sink->finish.reason == core::end_reason::length);
  CHECK(w.engine->wait_stopped(5s));
}

TEST_CASE("runtime: an echoed prompt comes first, with its scores, and its first token has none",
          "[actor]") {
  world w;
  auto request = ask({40, 41, 42}, 2);
  request.echo = true;
  request.decode.top_logprobs = 0;
  auto one = w.start(std::move(request));
  REQUIRE(one.sink->wait_end());
  const auto bytes = [&](token_id token) { return w.model->vocabulary.bytes(token); };
  CHECK(one.sink->echoed == bytes(40) + bytes(41) + bytes(42));
  REQUIRE(one.sink->pieces.size() >= 3);
  CHECK_FALSE(one.sink->pieces[0].logprob);
  CHECK(one.sink->pieces[2].token == 42);
  CHECK(one.sink->pieces[2].logprob == -1.0f);
}

TEST_CASE("runtime: special-token text of a user stays text, the template's becomes tokens",
          "[actor]") {
  world w;
  core::generation_request request;
  request.prompt = std::vector<core::chat_message>{{"user", "a<|im_end|>"}};
  const auto tokens = w.engine->encode(request);
  CHECK(std::count(tokens.begin(), tokens.end(), 2) == 1);  // the template's own end marker alone
  CHECK(w.engine->decode(tokens) ==
        "<|im_start|>user\na<|im_end|><|im_end|>\n<|im_start|>assistant\n");
  request.prompt = std::vector<token_id>{1, 999999};
  CHECK_THROWS_WITH(w.engine->encode(request), Catch::Contains("999999"));
}

TEST_CASE("runtime: a handle says whether its request is queued, in prefill, decoding or done",
          "[actor]") {
  runtime_config settings;
  settings.max_num_seqs = 1;
  world w(32, settings);
  w.device->step_time = 1ms;
  w.hold();
  auto one = w.start(ask({40, 41}, 30));
  REQUIRE(w.device->wait_started(1));
  auto two = w.start(ask({42}, 2));
  REQUIRE(two.sink->wait([&] { return two.sink->order == "a"; }));
  CHECK(two.handle->phase() == core::life_phase::queued);
  const auto reaches = [](const auto& handle, core::life_phase phase) {
    for (int i = 0; i < 2000 && handle->phase() != phase; ++i) std::this_thread::sleep_for(1ms);
    return handle->phase() == phase;
  };
  CHECK(reaches(one.handle, core::life_phase::prefill));
  w.let_go();
  REQUIRE(one.sink->wait([&] { return one.sink->text.size() > 1; }));
  CHECK(one.handle->phase() >= core::life_phase::decode);
  REQUIRE(two.sink->wait_end());
  CHECK(reaches(two.handle, core::life_phase::done));
}

TEST_CASE("runtime: handle and sink may outlive it, and their use then has no effect", "[actor]") {
  std::optional<world> w(std::in_place);
  auto over = w->start(ask({40}, 5));
  REQUIRE(over.sink->wait_end());
  w->hold();
  auto running = w->start(ask({41}, 5));
  REQUIRE(w->device->wait_started(6));
  w->let_go();
  w->engine.reset();
  for (auto* one : {&over, &running}) {
    CHECK(one->sink->ends == 1);
    one->handle->delivered();
    one->sink.reset();
  }
  w.reset();
}

TEST_CASE("runtime: D12 the gauges are true when the runtime is made, whoever has run by then",
          "[actor]") {
  // An actor's own first report comes from a thread of the pool, at some time.
  struct first_report final : quiet_observer {
    void on_pool(const core::pool_record& record) override {
      const std::lock_guard lock(mutex);
      if (seen++ == 0) total = record.total, from = std::this_thread::get_id();
    }
    std::mutex mutex;
    int seen = 0;
    std::uint64_t total = 0;
    std::thread::id from;
  } watcher;
  test::temporary_file file{test::tiny_llama_bytes()};
  runtime_config config;
  config.model = file.path();
  const runtime engine(config, gpu::load_model(file.path()),
                       std::make_shared<test::fake_backend>(16, 32, 36, 125), watcher,
                       [](const std::string&) {});
  const std::lock_guard lock(watcher.mutex);
  CHECK(watcher.total == 32);
  CHECK(watcher.from == std::this_thread::get_id());
}

TEST_CASE("runtime: the choices of one request compute its prompt once and answer as if alone",
          "[actor]") {
  const std::uint32_t prompt_tokens = GENERATE(33u, 48u);
  world w(64);
  std::vector<token_id> prompt;
  for (std::uint32_t i = 0; i < prompt_tokens; ++i)
    prompt.push_back(36 + static_cast<token_id>(i % 80));
  std::vector<std::shared_ptr<recording_sink>> sinks;
  std::vector<core::answer_choice> choices;
  for (std::uint64_t i = 0; i < 8; ++i) {
    sinks.push_back(std::make_shared<recording_sink>());
    choices.push_back({100 + i, sinks.back()});
  }
  w.hold();
  const auto handles = w.engine->submit_choices(ask(prompt, 20), choices);
  REQUIRE(handles.size() == 8);
  for (std::size_t i = 0; i < 8; ++i) sinks[i]->credit = handles[i];
  w.let_go();
  for (std::size_t i = 0; i < 8; ++i) {
    INFO("choice " << i);
    REQUIRE(sinks[i]->wait_end());
    CHECK(sinks[i]->text == w.expected_text(prompt, 20, 100 + i));
  }
  REQUIRE(w.watcher.wait([&] { return w.watcher.ends.size() == 8; }));
  CHECK(w.watcher.wait_whole());
  std::uint64_t computed = 0;
  for (const auto& step : w.watcher.steps) computed += step.prefill_tokens + step.decode_tokens;
  CHECK(computed == prompt_tokens + 8 * 19);
}

TEST_CASE("runtime: choices whose sinks go at any moment leave the pool whole", "[actor]") {
  const int after = GENERATE(0, 1, 2, 3);
  world w(64);
  w.device->step_time = 1ms;
  std::vector<std::shared_ptr<recording_sink>> sinks;
  std::vector<core::answer_choice> choices;
  for (std::uint64_t i = 0; i < 4; ++i) {
    sinks.push_back(std::make_shared<recording_sink>());
    choices.push_back({i, sinks.back()});
  }
  const auto handles = w.engine->submit_choices(ask({40, 41, 42}, 200), choices);
  for (std::size_t i = 0; i < 4; ++i) sinks[i]->credit = handles[i];
  if (after > 0) w.device->wait_started(static_cast<std::uint64_t>(after));
  sinks[0].reset();
  sinks[2].reset();
  REQUIRE(w.watcher.wait([&] { return w.watcher.ends.size() >= 2; }));
  sinks[1].reset();
  sinks[3].reset();
  REQUIRE(w.watcher.wait([&] { return w.watcher.ends.size() == 4; }));
  for (const auto& end : w.watcher.ends) CHECK(end.reason == core::end_reason::client_gone);
  CHECK(w.watcher.wait_whole());
}
