// What embedding programs use, without the actors: an engine that calls from several threads,
// requests from several more, futures that are dropped, callbacks that throw.
#include <catch2/catch.hpp>
#include <stdexcept>

#include "actors/embedding/answer_future.hpp"
#include "actors/embedding/callback_client.hpp"
#include "actors/embedding/pool_watch.hpp"
#include "config/log.hpp"
#include "tests/support/racing_engine.hpp"

using namespace troupe;
using namespace std::chrono_literals;
using troupe::test::racing_engine;

namespace {

void check_rules(racing_engine& engine) {
  CHECK(racing_engine::eventually([&] { return engine.idle(); }));
  CHECK(engine.overruns == 0);
  CHECK(engine.vanished == 0);
}

template <class Body>
void on_four_threads(Body body) {
  std::vector<std::thread> threads;
  for (int who = 0; who < 4; ++who) threads.emplace_back([&, who] { body(who); });
  for (auto& t : threads) t.join();
}

}  // namespace

TEST_CASE("answer_future: answers asked for, dropped, cancelled and detached from four threads",
          "[tsan]") {
  racing_engine engine;
  engine.pieces = 8;
  std::atomic<int> whole = 0, wrong = 0;
  on_four_threads([&](int who) {
    for (int i = 0; i < 60; ++i) {
      auto future = ask(engine, {});
      if (who == 1 && i % 2) continue;
      if (who == 2) future.cancel();
      auto got = who == 3 ? std::move(future).detach().get() : future.get();
      whole += got.end.reason == core::end_reason::end_token;
      wrong += got.end.reason == core::end_reason::end_token && !got.text.ends_with("word8 ");
    }
  });
  check_rules(engine);
  CHECK(wrong == 0);
  CHECK(whole >= 150);
  CHECK(engine.submitted == 240);
}

TEST_CASE(
    "callback_client: requests from four threads, callbacks that throw, a client destroyed "
    "meanwhile",
    "[tsan]") {
  racing_engine engine;
  engine.pieces = 8;
  std::uint64_t texts = 0, ends = 0;  // touched by the callbacks' thread alone
  for (int round = 0; round < 8; ++round) {
    callback_client client{engine};
    on_four_threads([&](int who) {
      for (int i = 0; i < 15; ++i) {
        const auto handle = client.submit(
            {},
            [&, who](const core::generation_delta& d) {
              texts += d.text.size();
              if (who == 3 && d.completion_tokens == 2) throw std::runtime_error("enough");
            },
            [&](const core::generation_end&) { ++ends; });
        if (who == 2 && i % 3 == 0) handle->cancel(core::end_reason::cancelled, engine.now());
      }
    });
  }
  check_rules(engine);
  CHECK(ends == 8 * 4 * 15);
  CHECK(texts > 0);
}

TEST_CASE("pool_watch: a waiting thread sees the pool whole when the last block is back",
          "[tsan]") {
  for (int round = 0; round < 20; ++round) {
    pool_watch watch;
    watch.on_pool({100, 40, 0, 0, 40, 0});
    std::thread allocator{[&] {
      for (std::uint64_t used = 40; used-- > 0;)
        watch.on_released(core::end_reason::client_gone, false, 1, {100, used, 0, 0, 40, 0});
    }};
    CHECK(watch.wait_whole(20s));
    CHECK(watch.pool().used == 0);
    allocator.join();
  }
}

TEST_CASE("log: four threads write whole lines", "[tsan]") {
  configure_log("error", false);
  on_four_threads([](int who) {
    for (int i = 0; i < 200; ++i) {
      log_event(log_level::info, "not_written", {{"who", std::int64_t{who}}});
      if (i == 100)
        log_event(log_level::error, "from_a_test",
                  {{"who", std::int64_t{who}}, {"text", "two words"}});
    }
  });
  CHECK(to_json(log_fields{{"who", std::int64_t{1}}}) == R"({"who":1})");
}
