// The fronts without actors: a future of the whole answer, and two callbacks per request.
#include <catch2/catch.hpp>

#include "actors/embedding/callback_front.hpp"
#include "actors/embedding/future_front.hpp"
#include "actors/embedding/pool_watch.hpp"
#include "tests/actors/embedding/embedding_world.hpp"

using namespace troupe;
using namespace std::chrono_literals;

namespace {

struct front_world : test::host_world {
  runtime engine{config, model, device, watcher, on_fatal()};
};

core::generation_request prompt(std::vector<token_id> tokens, std::uint32_t max_tokens) {
  return test::ask_for(0, std::move(tokens), max_tokens).request;
}

}  // namespace

TEST_CASE("future_front: the whole answer arrives with its end", "[actor]") {
  front_world w;
  auto future = ask(w.engine, prompt({40, 41}, 50));
  REQUIRE(future.wait_for(10s) == std::future_status::ready);
  const auto got = future.get();
  CHECK(got.text == w.expected_text({40, 41}, 50));
  CHECK(got.end.reason == core::end_reason::length);
  CHECK(got.end.usage.completion == 50);
  CHECK_FALSE(future.valid());
  CHECK(w.watcher.wait_whole());
}

TEST_CASE("future_front: what goes wrong is in the answer", "[actor]") {
  front_world w;
  const auto got = ask(w.engine, prompt({999999}, 5)).get();
  CHECK(got.text.empty());
  CHECK(got.end.why_refused == core::refusal::invalid_token);
}

TEST_CASE("future_front: a future that is dropped or overwritten is a client that left",
          "[actor]") {
  front_world w;
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

TEST_CASE("future_front: a cancelled future gives what there is, a detached one runs to its end",
          "[actor]") {
  front_world w;
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

TEST_CASE("future_front: the end of the runtime is an answer, too", "[actor]") {
  test::host_world w;
  w.device->step_time = 300us;
  auto engine = std::make_unique<runtime>(w.config, w.model, w.device, w.watcher, w.on_fatal());
  auto future = ask(*engine, prompt({40}, 450));
  REQUIRE(w.device->wait_started(3));
  engine.reset();
  REQUIRE(future.wait_for(0s) == std::future_status::ready);
  CHECK(future.get().end.reason == core::end_reason::shutdown);
}

TEST_CASE("callback_front: all text goes through on_delta, then on_end comes once", "[actor]") {
  front_world w;
  std::string text;
  std::promise<core::generation_end> done;
  int ends = 0;
  {
    callback_front front(w.engine);
    front.submit(
        prompt({40, 41}, 60), [&](const core::generation_delta& piece) { text += piece.text; },
        [&](const core::generation_end& end) { ++ends, done.set_value(end); });
    const auto end = done.get_future().get();
    CHECK(end.reason == core::end_reason::length);
    CHECK(end.last.text.empty());
  }
  CHECK(ends == 1);
  CHECK(text == w.expected_text({40, 41}, 60));
}

TEST_CASE("callback_front: a callback that throws ends its request by name and harms nobody",
          "[actor]") {
  front_world w;
  w.device->step_time = 300us;
  callback_front front(w.engine);
  std::promise<core::generation_end> bad, good;
  std::string text;
  front.submit(
      prompt({40}, 450),
      [](const core::generation_delta&) { throw std::runtime_error("disk full"); },
      [&](const core::generation_end& end) { bad.set_value(end), throw 1; });
  front.submit(
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
    "callback_front: a callback that blocks leaves the engine free, and the front's end ends its "
    "requests",
    "[actor]") {
  front_world w;
  w.device->step_time = 100us;
  std::promise<void> let_go;
  std::vector<core::end_reason> reasons;
  {
    callback_front front(w.engine), other(w.engine);
    const auto gate = let_go.get_future().share();
    front.submit(
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

TEST_CASE("pool_watch: a pool is whole when as much came back as went out, and nothing is lost",
          "[actor]") {
  pool_watch pool;
  core::pool_record record;
  record.total = 8, record.used = 3, record.allocated_total = 3;
  pool.on_pool(record);
  CHECK_FALSE(pool.wait_whole(1ms));
  record.used = 0, record.quarantined = 1;
  pool.on_released(core::end_reason::length, false, 3, record);
  CHECK_FALSE(pool.wait_whole(1ms));
  record.quarantined = 0;
  pool.on_pool(record);
  CHECK(pool.wait_whole(1ms));
  pool.on_violation("a rule");
  CHECK(pool.violations() == std::vector<std::string>{"a rule"});
}
