#include "net/server/server.hpp"

#include <catch2/catch.hpp>
#include <chrono>

#include "tests/net/test_client.hpp"

using namespace troupe;
using namespace troupe::net::test;

namespace {

const std::string chat_stream = R"({"messages":[{"role":"user","content":"hi"}],"stream":true})";

}  // namespace

TEST_CASE("server: draining refuses new work, finishes the old and closes the idle", "[net]") {
  running_server s;
  script one;
  one.pause = std::chrono::milliseconds{50};
  s.engine.play(one);
  test_client busy{s.port}, idle{s.port};
  idle.send(get("/ready"));
  CHECK(idle.read_reply().status == 200);
  busy.send(post("/v1/chat/completions", chat_stream) + post("/v1/chat/completions", chat_stream));
  busy.read_until("assistant");
  s.server_under_test.drain();
  CHECK(idle.closed_by_peer());
  CHECK_FALSE(s.server_under_test.idle());
  CHECK(sse_data(busy.read_reply().body).back() == "[DONE]");
  CHECK(fake_engine::eventually([&] { return s.server_under_test.idle(); }));
  CHECK(s.engine.submitted().size() == 1);
  CHECK_THROWS(test_client{s.port});
}

TEST_CASE("server: stopping ends what runs as shutdown and can be repeated", "[net]") {
  running_server s;
  script one;
  one.hold = hold_at::decode;
  s.engine.play(one);
  test_client c{s.port};
  c.send(post("/v1/chat/completions", chat_stream));
  c.read_until("Hello");
  s.server_under_test.stop();
  s.server_under_test.stop();
  REQUIRE(s.engine.cancels().size() == 1);
  CHECK(s.engine.cancels()[0].why == core::end_reason::shutdown);
}

TEST_CASE("server: an address in use is one clear error", "[net]") {
  running_server s;
  runtime_config config;
  config.port = s.port;
  net::server other{config, s.engine, s.counters};
  CHECK_THROWS_WITH(other.start(), Catch::Contains("cannot listen on 127.0.0.1:"));
}
