// Clients that read slowly or not at all: what waits for them is bounded, and they end by name at a
// limit, over plain HTTP, SSE and WebSocket, while the answer is made and when it is complete.
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <thread>

#include "tests/net/test_client.hpp"

using namespace troupe;
using namespace troupe::net::test;
using namespace std::chrono_literals;
using clock_type = std::chrono::steady_clock;

namespace {

constexpr std::size_t KiB = 1024;
const std::vector<std::string> transports{"sse", "ws", "http"};

script pieces_of(std::size_t bytes, std::uint32_t count) {
  script s;
  s.pieces = {std::string(bytes, 'x')};
  s.repeat = count;
  return s;
}

runtime_config small_buffers() {
  runtime_config config;
  config.send_buffer_bytes = 64 * KiB;
  config.client_send_timeout_s = 0.3;
  config.client_drain_timeout_s = 60;
  return config;
}

void ask(test_client& c, const std::string& transport) {
  if (transport == "ws") {
    REQUIRE(c.upgrade().status == 101);
    c.send_ws(R"({"type":"response.create","input":"a"})");
  } else {
    c.send(post("/v1/completions", transport == "sse"
                                       ? R"({"prompt":"a","stream":true,"max_tokens":100000})"
                                       : R"({"prompt":"a","max_tokens":100000})"));
  }
}

bool counted(running_server& s, const std::string& transport, int count = 1) {
  return contains(s.counters.scrape(), "troupe_slow_readers_total{transport=\"" + transport +
                                           "\"} " + std::to_string(count));
}

}  // namespace

TEST_CASE("slow reader: C050 what the kernel takes of an unread answer is bounded", "[net]") {
  running_server s{small_buffers()};
  s.engine.play(pieces_of(8 * KiB, 100'000));
  test_client c{s.port, 4096};
  ask(c, "sse");
  REQUIRE(fake_engine::eventually([&] { return s.engine.cancels().size() == 1; }));
  CHECK(s.engine.cancels()[0].why == core::end_reason::slow_reader);
  // The two sockets' buffers and the one write in flight; left to itself the kernel takes some four
  // MiB.
  CHECK(s.engine.deltas_sent() * 8 < 256);
}

TEST_CASE("slow reader: C050 one that never reads ends by name, over every transport", "[net]") {
  for (const auto& transport : transports) {
    CAPTURE(transport);
    running_server s{small_buffers()};
    s.engine.play(pieces_of(
        8 * KiB, transport == "http" ? 500 : 100'000));  // a plain reply has to end to be written
    test_client c{s.port, 4096}, neighbour{s.port};
    ask(c, transport);
    REQUIRE(fake_engine::eventually([&] { return counted(s, transport); }));
    CHECK(fake_engine::eventually(
        [&] { return s.engine.live() == 0 && s.server_under_test.idle(); }));
    s.engine.play(script{});
    ask(neighbour, "sse");
    CHECK(sse_data(neighbour.read_reply().body).back() == "[DONE]");
  }
}

TEST_CASE(
    "slow reader: one that drips ends by name, also when the answer is complete and only waits to "
    "be read",
    "[net]") {
  // 1 byte each time makes no progress that a sender sees; 8 KiB each time does, and meets the
  // limit of a whole write.
  for (const std::size_t drip : {std::size_t{1}, 8 * KiB})
    for (const auto& transport : transports) {
      CAPTURE(drip, transport);
      auto config = small_buffers();
      if (drip > 1) config.client_drain_timeout_s = 0.6;
      running_server s{config};
      s.engine.play(pieces_of(1000 * KiB, transport == "http" ? 8 : 1));
      test_client c{s.port, 4096};
      ask(c, transport);
      if (transport != "ws")
        REQUIRE(fake_engine::eventually([&] { return s.engine.submitted().size() == 1; }));
      const auto began = clock_type::now();
      std::size_t got = 0;
      while (!counted(s, transport) && clock_type::now() - began < 20s) {
        got += c.read_some(drip, 20ms);
        std::this_thread::sleep_for(20ms);
      }
      CHECK(counted(s, transport));
      CHECK(clock_type::now() - began < 15s);
      CHECK(got < 900 * KiB);
      CHECK(fake_engine::eventually(
          [&] { return s.engine.live() == 0 && s.server_under_test.idle(); }));
    }
}

TEST_CASE("slow reader: one that is slow and steady gets all of its answer", "[net]") {
  for (const auto& transport : {"sse", "ws"}) {
    CAPTURE(transport);
    auto config = small_buffers();
    config.client_send_timeout_s = config.client_drain_timeout_s =
        1;  // for one write, not for the answer
    running_server s{config};
    s.engine.play(pieces_of(16 * KiB, 60));
    test_client c{s.port, 32 * KiB};  // a smaller window would open by the kernel's slow timers
    ask(c, transport);
    std::size_t got = 0;
    const auto began = clock_type::now();
    while (got < 960 * KiB) {
      const std::size_t n = c.read_some(8 * KiB, 20'000ms);
      REQUIRE(n > 0);
      got += n;
      std::this_thread::sleep_for(20ms);
    }
    c.read_until(transport == std::string{"ws"} ? "response.completed" : "[DONE]");
    CHECK(clock_type::now() - began > 1s);
    CHECK(s.engine.cancels().empty());
    CHECK_FALSE(s.engine.overrun());
  }
}

TEST_CASE("slow reader: the choices of one request do not crowd each other out", "[net]") {
  auto config = small_buffers();
  config.max_outbound_bytes = 64 * KiB;
  running_server s{config};
  s.engine.play(pieces_of(300 * KiB, 2));
  test_client c{s.port, 4096};
  c.send(post("/v1/completions", R"({"prompt":"a","n":6,"seed":1,"stream":true})"));
  std::size_t got = 0;
  while (got < 6 * 2 * 300 * KiB) {
    const std::size_t n = c.read_some(64 * KiB, 20'000ms);
    REQUIRE(n > 0);
    got += n;
    std::this_thread::sleep_for(1ms);
  }
  c.read_until("[DONE]");
  CHECK(s.engine.cancels().empty());
}

TEST_CASE("slow reader: the kernel's own limit on a window that stays shut has the same name",
          "[net]") {
  auto config = small_buffers();
  config.client_send_timeout_s = 60;
  config.tcp_user_timeout_s = 1;
  running_server s{config};
  s.engine.play(pieces_of(8 * KiB, 100'000));
  test_client c{s.port, 4096};
  ask(c, "sse");
  REQUIRE(fake_engine::eventually([&] { return s.engine.cancels().size() == 1; }));
  CHECK(s.engine.cancels()[0].why == core::end_reason::slow_reader);
  CHECK(counted(s, "sse"));
}

TEST_CASE("slow reader: replies that generate nothing meet the same limits", "[net]") {
  auto config = small_buffers();
  config.max_pipelined_bytes = 1 << 20;
  running_server s{config};
  test_client c{s.port, 4096};
  std::string many;
  for (int i = 0; i < 500; ++i) many += get("/metrics");
  c.send(many);
  REQUIRE(fake_engine::eventually([&] { return counted(s, "http"); }));
  CHECK(fake_engine::eventually([&] { return s.server_under_test.idle(); }));
}
