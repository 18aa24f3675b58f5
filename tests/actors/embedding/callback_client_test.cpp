#include "actors/embedding/callback_client.hpp"

#include <catch2/catch.hpp>

#include "actors/embedding/answer_future.hpp"
#include "tests/actors/embedding/embedding_world.hpp"

using namespace troupe;
using namespace std::chrono_literals;
using test::engine_world;
using test::prompt;

TEST_CASE("callback_client: all text goes through on_delta, then on_end comes once", "[actor]") {
  engine_world w;
  std::string text;
  std::promise<core::generation_end> done;
  int ends = 0;
  {
    callback_client client(w.engine);
    client.submit(
        prompt({40, 41}, 60), [&](const core::generation_delta& piece) { text += piece.text; },
        [&](const core::generation_end& end) { ++ends, done.set_value(end); });
    const auto end = done.get_future().get();
    CHECK(end.reason == core::end_reason::length);
    CHECK(end.last.text.empty());
  }
  CHECK(ends == 1);
  CHECK(text == w.expected_text({40, 41}, 60));
}

TEST_CASE("callback_client: a callback that throws ends its request by name and harms no other",
          "[actor]") {
  engine_world w;
  w.device->step_time = 300us;
  callback_client client(w.engine);
  std::promise<core::generation_end> bad, good;
  std::string text;
  client.submit(
      prompt({40}, 450),
      [](const core::generation_delta&) { throw std::runtime_error("disk full"); },
      [&](const core::generation_end& end) { bad.set_value(end), throw 1; });
  client.submit(
      prompt({41}, 60), [&](const core::generation_delta& piece) { text += piece.text; },
      [&](const core::generation_end& end) { good.set_value(end); });
  const auto end = bad.get_future().get();
  CHECK(end.reason == core::end_reason::cancelled);
  CHECK(end.message == "on_delta has thrown: disk full");
  CHECK(good.get_future().get().reason == core::end_reason::length);
  CHECK(text == w.expected_text({41}, 60));
  CHECK(w.watcher.wait_whole());
  CHECK_FALSE(w.engine.health().failed);
}

TEST_CASE(
    "callback_client: a callback that blocks leaves the engine free, and its destructor ends its "
    "requests",
    "[actor]") {
  engine_world w;
  w.device->step_time = 100us;
  std::promise<void> let_go;
  std::vector<core::end_reason> reasons;
  {
    callback_client client(w.engine), other(w.engine);
    const auto gate = let_go.get_future().share();
    client.submit(
        prompt({40}, 450), [gate](const core::generation_delta&) { gate.wait(); },
        [&](const core::generation_end& end) { reasons.push_back(end.reason); });
    std::promise<void> done;
    other.submit(prompt({41}, 60), nullptr, [&](const core::generation_end&) { done.set_value(); });
    CHECK(done.get_future().wait_for(10s) == std::future_status::ready);
    CHECK(ask(w.engine, prompt({42}, 60)).get().text == w.expected_text({42}, 60));
    let_go.set_value();
  }
  CHECK(reasons.size() == 1);
  CHECK(w.watcher.wait_whole());
}
