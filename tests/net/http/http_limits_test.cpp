// What one HTTP connection may cost: times, sizes, forms of a request that are refused.
#include <catch2/catch.hpp>

#include "tests/net/test_client.hpp"

using namespace troupe;
using namespace troupe::net::test;

namespace {

const std::string chat_stream = R"({"messages":[{"role":"user","content":"hi"}],"stream":true})";

}  // namespace

TEST_CASE("http_session: a request that arrives one byte at a time is answered", "[net]") {
  running_server s;
  test_client c{s.port};
  for (const char byte : post("/v1/completions", R"({"prompt":"x"})")) c.send(std::string(1, byte));
  CHECK(c.read_reply().status == 200);
}

TEST_CASE("http_session: a sender of a byte a second runs into the header time", "[net]") {
  runtime_config config;
  config.header_timeout_s = 0.2;
  running_server s{config};
  test_client c{s.port};
  c.send("GET /health HT");
  const auto r = c.read_reply();
  CHECK(r.status == 408);
  CHECK(r.header("Connection") == "close");
  CHECK(c.closed_by_peer());
}

TEST_CASE("http_session: an idle connection is closed after its time", "[net]") {
  runtime_config config;
  config.keep_alive_timeout_s = 0.1;
  running_server s{config};
  test_client c{s.port};
  CHECK(c.closed_by_peer());
}

TEST_CASE("http_session: a body over the limit is 413 and the connection closes", "[net]") {
  runtime_config config;
  config.max_body_bytes = 1000;
  running_server s{config};
  test_client c{s.port};
  c.send(post("/v1/completions", std::string(2000, ' ')));
  const auto r = c.read_reply();
  CHECK(r.status == 413);
  CHECK(contains(r.body, "request_too_large"));
  CHECK(c.closed_by_peer());
  CHECK(s.engine.submitted().empty());
}

TEST_CASE("http_session: endless chunk extensions and trailers meet the header limit", "[net]") {
  const std::string chunked =
      "GET /health HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const std::string endless : {"1;", "0\r\nx: "}) {
    running_server s;
    test_client c{s.port};
    c.send(chunked + endless + std::string(256 * 1024, 'x'));
    CHECK(c.read_reply().status == 431);
    CHECK(c.closed_by_peer());
  }
}

TEST_CASE("http_session: a body in an unknown coding is refused, never read as the next request",
          "[net]") {
  for (const std::string coding : {"xchunked", "gzip, chunked"}) {
    running_server s;
    test_client c{s.port};
    c.send("POST /v1/completions HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: " + coding +
           "\r\n\r\nGET /version HTTP/1.1\r\nHost: h\r\n\r\n");
    CHECK(c.read_reply().status == 400);
    CHECK(c.closed_by_peer());
  }
}

TEST_CASE("http_session: a long text at /tokenize delays no other client, and its own may leave",
          "[net]") {
  running_server s;
  std::mutex gate;
  std::unique_lock closed{gate};
  s.engine.before_encode = [&] { const std::lock_guard pass{gate}; };
  test_client slow{s.port}, leaver{s.port}, other{s.port};
  slow.send(post("/tokenize", R"({"prompt":"ab"})"));
  leaver.send(post("/tokenize", R"({"prompt":"ab"})"));
  other.send(get("/health"));
  CHECK(other.read_reply().status == 200);
  leaver.reset();
  closed.unlock();
  CHECK(slow.read_reply().status == 200);
  CHECK(fake_engine::eventually([&] { return s.server_under_test.idle(); }));
}

TEST_CASE("http_session: Expect 100-continue gets its go-ahead before the body", "[net]") {
  running_server s;
  test_client c{s.port};
  const std::string body = R"({"prompt":"x"})";
  c.send("POST /v1/completions HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: " +
         std::to_string(body.size()) + "\r\n\r\n");
  CHECK(contains(c.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n"));
  c.send(body);
  CHECK(c.read_reply().status == 200);
}

TEST_CASE("http_session: bytes that are no request are 400", "[net]") {
  running_server s;
  test_client c{s.port};
  c.send("\x16\x03\x01 hello\r\n\r\n");
  CHECK(c.read_reply().status == 400);
  CHECK(c.closed_by_peer());
}

TEST_CASE("http_session: HTTP/1.0 streams without chunks and closes", "[net]") {
  running_server s;
  test_client c{s.port};
  c.send("POST /v1/chat/completions HTTP/1.0\r\nContent-Length: " +
         std::to_string(chat_stream.size()) + "\r\n\r\n" + chat_stream);
  const auto r = c.read_reply();
  CHECK(r.header("Transfer-Encoding").empty());
  CHECK(sse_data(r.body).back() == "[DONE]");
}

TEST_CASE("http_session: a reader that stops is bounded and ends as slow", "[net]") {
  runtime_config config;
  config.client_send_timeout_s = 0.3;
  running_server s{config};
  script one;
  one.pieces = {std::string(60000, 'x')};
  one.repeat = 2000;
  s.engine.play(one);
  test_client c{s.port, 4096};
  c.send(post("/v1/chat/completions", chat_stream));
  REQUIRE(fake_engine::eventually([&] { return s.engine.cancels().size() == 1; }));
  CHECK(s.engine.cancels()[0].why == core::end_reason::slow_reader);
  CHECK_FALSE(s.engine.overrun());
  // One delta is on its way at a time, so the rest was never made.
  CHECK(s.engine.deltas_sent() < 500);
}

TEST_CASE("http_session: more bytes than allowed behind a request count as gone", "[net]") {
  runtime_config config;
  config.max_pipelined_bytes = 1000;
  running_server s{config};
  script one;
  one.hold = hold_at::prefill;
  s.engine.play(one);
  test_client c{s.port};
  c.send(post("/v1/chat/completions", chat_stream) + std::string(40000, ' '));
  CHECK(fake_engine::eventually([&] { return s.engine.cancels().size() == 1; }));
}

TEST_CASE("http_session: connections beyond the limit get 503", "[net]") {
  runtime_config config;
  config.max_connections = 1;
  running_server s{config};
  script one;
  one.hold = hold_at::decode;
  s.engine.play(one);
  test_client first{s.port};
  first.send(post("/v1/completions", R"({"prompt":"a","stream":true})"));
  first.read_until("Hello");  // an idle one would make room
  test_client second{s.port};
  const auto r = second.read_reply();
  CHECK(r.status == 503);
  CHECK(second.closed_by_peer());
}

TEST_CASE("http_session: F022 a reply that keeps the connection says for how long", "[net]") {
  // Go's http.Transport keeps an idle connection 90 s.
  CHECK(runtime_config{}.keep_alive_timeout_s > 90);
  runtime_config config;
  config.keep_alive_timeout_s = 120;
  running_server s{config};
  test_client c{s.port};
  for (const auto& request : {get("/health"), get("/nowhere"), post("/v1/completions", "{}"),
                              post("/v1/chat/completions", chat_stream)}) {
    c.send(request);
    const auto r = c.read_reply();
    CHECK(r.header("Keep-Alive") == "timeout=119");
    CHECK(r.header("Connection") == "keep-alive");
  }
  c.send(get("/health", "Connection: close\r\n"));
  const auto last = c.read_reply();
  CHECK(last.header("Keep-Alive").empty());
  CHECK(last.header("Connection") == "close");
}
