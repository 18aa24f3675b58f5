#include "actors/embedding/answer_future.hpp"

#include <catch2/catch.hpp>

#include "tests/actors/embedding/embedding_world.hpp"

using namespace troupe;
using namespace std::chrono_literals;
using test::engine_world;
using test::prompt;

TEST_CASE("answer_future: the whole answer arrives with its end", "[actor]") {
  engine_world w;
  auto future = ask(w.engine, prompt({40, 41}, 50));
  REQUIRE(future.wait_for(10s) == std::future_status::ready);
  const auto got = future.get();
  CHECK(got.text == w.expected_text({40, 41}, 50));
  CHECK(got.end.reason == core::end_reason::length);
  CHECK(got.end.usage.completion == 50);
  CHECK_FALSE(future.valid());
  CHECK(w.watcher.wait_whole());
}

TEST_CASE("answer_future: what goes wrong is in the answer", "[actor]") {
  engine_world w;
  const auto got = ask(w.engine, prompt({999999}, 5)).get();
  CHECK(got.text.empty());
  CHECK(got.end.why_refused == core::refusal::invalid_token);
}

TEST_CASE("answer_future: a future that is dropped or overwritten is a client that left",
          "[actor]") {
  engine_world w;
  w.device->step_time = 300us;
  {
    auto one = ask(w.engine, prompt({40}, 450));
    auto two = ask(w.engine, prompt({41}, 450));
    REQUIRE(w.device->wait_started(3));
    two = ask(w.engine, prompt({42}, 5));
    CHECK(two.get().text == w.expected_text({42}, 5));
  }
  REQUIRE(w.watcher.wait([&] { return w.watcher.ends.size() == 3; }));
  CHECK(std::count_if(w.watcher.ends.begin(), w.watcher.ends.end(), [](const auto& record) {
          return record.reason == core::end_reason::client_gone;
        }) == 2);
  CHECK(w.watcher.wait_whole());
}

TEST_CASE("answer_future: a cancelled future gives what there is, a detached one runs to its end",
          "[actor]") {
  engine_world w;
  w.device->step_time = 300us;
  auto one = ask(w.engine, prompt({40}, 450));
  REQUIRE(w.device->wait_started(5));
  one.cancel();
  const auto got = one.get();
  CHECK(got.end.reason == core::end_reason::cancelled);
  CHECK(w.expected_text({40}, 450).starts_with(got.text));
  std::future<answer> plain = ask(w.engine, prompt({41}, 30)).detach();
  CHECK(plain.get().text == w.expected_text({41}, 30));
  CHECK(w.watcher.wait_whole());
}

TEST_CASE("answer_future: the end of the runtime is an answer, too", "[actor]") {
  test::host_world w;
  w.device->step_time = 300us;
  auto engine = std::make_unique<runtime>(w.config, w.model, w.device, w.watcher, w.on_fatal());
  auto future = ask(*engine, prompt({40}, 450));
  REQUIRE(w.device->wait_started(3));
  engine.reset();
  REQUIRE(future.wait_for(0s) == std::future_status::ready);
  CHECK(future.get().end.reason == core::end_reason::shutdown);
}
