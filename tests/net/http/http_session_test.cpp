#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "tests/net/test_client.hpp"

using namespace troupe;
using namespace troupe::net::test;

namespace {

const std::string chat_body = R"({"messages":[{"role":"user","content":"hi"}]})";
const std::string chat_stream = R"({"messages":[{"role":"user","content":"hi"}],"stream":true})";

}  // namespace

TEST_CASE("http_session: a chat stream is a role chunk, text chunks, an end chunk and DONE",
          "[net]") {
  running_server s;
  test_client c{s.port};
  c.send(post("/v1/chat/completions", chat_stream));
  const auto r = c.read_reply();
  REQUIRE(r.status == 200);
  CHECK(r.header("Content-Type") == "text/event-stream; charset=utf-8");
  CHECK(r.header("X-Troupe-Id").starts_with("chatcmpl-"));
  const auto data = sse_data(r.body);
  REQUIRE(data.size() == 6);
  CHECK(contains(data[0], R"("delta":{"role":"assistant","content":""})"));
  CHECK(contains(data[1], R"("delta":{"content":"Hello"})"));
  CHECK(contains(data[4], R"("finish_reason":"stop","stop_reason":null)"));
  CHECK(contains(data[4], R"("timings":)"));
  CHECK_FALSE(contains(data[1], "usage"));
  CHECK(data[5] == "[DONE]");
  CHECK_FALSE(s.engine.overrun());
  // The same connection goes on.
  c.send(get("/health"));
  CHECK(c.read_reply().body == R"({"status":"ok"})");
}

TEST_CASE("http_session: usage comes once with include_usage and on every chunk when continuous",
          "[net]") {
  running_server s;
  test_client c{s.port};
  c.send(post("/v1/completions",
              R"({"prompt":"p","stream":true,"stream_options":{"include_usage":true}})"));
  auto data = sse_data(c.read_reply().body);
  REQUIRE(data.size() == 6);
  CHECK(contains(data[0], R"("usage":null)"));
  CHECK(contains(
      data[4],
      R"("choices":[],"usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10)"));
  c.send(post(
      "/v1/completions",
      R"({"prompt":"p","stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true}})"));
  data = sse_data(c.read_reply().body);
  CHECK(contains(data[1], R"("completion_tokens":2)"));
}

TEST_CASE("http_session: a plain reply holds text, finish reason, usage and the request id",
          "[net]") {
  running_server s;
  test_client c{s.port};
  c.send(post("/v1/chat/completions", chat_body, "X-Request-Id: mine-1\r\n"));
  const auto r = c.read_reply();
  REQUIRE(r.status == 200);
  CHECK(r.header("X-Request-Id") == "mine-1");
  CHECK(contains(r.body,
                 R"("message":{"role":"assistant","content":"Hello, world","refusal":null})"));
  CHECK(contains(r.body, R"("usage":{"prompt_tokens":7,"completion_tokens":3,"total_tokens":10)"));
}

TEST_CASE("http_session: requests sent at once are answered in order on one connection", "[net]") {
  running_server s;
  test_client c{s.port};
  c.send(get("/version") + post("/v1/chat/completions", chat_stream) +
         post("/v1/completions", R"({"prompt":"x"})") + get("/health", "", "HEAD") +
         get("/nowhere"));
  CHECK(contains(c.read_reply().body, "version"));
  CHECK(sse_data(c.read_reply().body).back() == "[DONE]");
  CHECK(contains(c.read_reply().body, "text_completion"));
  const auto head = c.read_reply(true);
  CHECK(head.status == 200);
  CHECK(head.header("Content-Length") == "15");
  CHECK(contains(c.read_reply().body, "unknown_url"));
  CHECK(fake_engine::eventually([&] { return s.server_under_test.idle(); }));
}

TEST_CASE("http_session: two choices interleave, each with its own role and end chunk", "[net]") {
  running_server s;
  test_client c{s.port};
  c.send(post("/v1/chat/completions",
              R"({"messages":[{"role":"user","content":"hi"}],"stream":true,"n":2,"seed":1})"));
  const auto data = sse_data(c.read_reply().body);
  CHECK(data.size() == 11);
  int roles = 0, ends = 0, second = 0;
  for (const auto& d : data) {
    roles += contains(d, R"("role")");
    ends += contains(d, R"("finish_reason":"stop")");
    second += contains(d, R"("index":1)");
  }
  CHECK(roles == 2);
  CHECK(ends == 2);
  CHECK(second == 5);
  const auto seen = s.engine.submitted();
  REQUIRE(seen.size() == 2);
  CHECK(seen[0].decode.sampling.seed != seen[1].decode.sampling.seed);
}

TEST_CASE("http_session: one refused choice refuses all before the status line", "[net]") {
  running_server s;
  s.engine.play([](std::size_t i) {
    script one;
    if (i == 1) {
      one.reason = core::end_reason::refused;
      one.why_refused = core::refusal::queue_full;
    }
    return one;
  });
  test_client c{s.port};
  c.send(post("/v1/completions", R"({"prompt":["a","b"],"stream":true})"));
  const auto r = c.read_reply();
  CHECK(r.status == 503);
  CHECK(r.header("Retry-After") == "1");
  CHECK(contains(r.body, R"("code":"server_is_overloaded")"));
  CHECK(fake_engine::eventually([&] { return s.engine.live() == 0; }));
}

TEST_CASE(
    "http_session: ends that are errors have their status before a stream and an event inside it",
    "[net]") {
  running_server s;
  const auto play = [&](core::end_reason reason, core::refusal why) {
    script one;
    one.reason = reason;
    one.why_refused = why;
    one.message = "This model's maximum context length is 128 tokens, the prompt has 200.";
    s.engine.play(one);
  };
  test_client c{s.port};
  play(core::end_reason::refused, core::refusal::context_length);
  c.send(post("/v1/chat/completions", chat_stream));
  auto r = c.read_reply();
  CHECK(r.status == 400);
  CHECK(contains(r.body, "This model's maximum context length is 128 tokens"));
  CHECK(contains(r.body, R"("param":"messages","code":"context_length_exceeded")"));
  play(core::end_reason::refused, core::refusal::empty_prompt);
  c.send(post("/v1/completions", R"({"prompt":""})"));
  CHECK(contains(c.read_reply().body, R"("param":"prompt","code":"invalid_value")"));
  play(core::end_reason::queue_timeout, core::refusal::none);
  c.send(post("/v1/chat/completions", chat_body));
  r = c.read_reply();
  CHECK(r.status == 408);
  CHECK(r.header("x-should-retry") == "false");
  play(core::end_reason::step_failed, core::refusal::none);
  c.send(post("/v1/chat/completions", chat_stream));
  r = c.read_reply();
  CHECK(r.status == 200);
  const auto data = sse_data(r.body);
  CHECK(data.back() == "[DONE]");
  CHECK(contains(data[data.size() - 2], R"({"error":{)"));
  CHECK(contains(data[data.size() - 2], R"("code":"step_failed")"));
  c.send(get("/health"));
  CHECK(c.read_reply().status == 200);
}

TEST_CASE("http_session: echo with log-probabilities scores the prompt first", "[net]") {
  running_server s;
  test_client c{s.port};
  c.send(post("/v1/completions", R"({"prompt":"ab","echo":true,"logprobs":1,"max_tokens":0})"));
  const auto r = c.read_reply();
  REQUIRE(r.status == 200);
  CHECK(contains(r.body,
                 R"("text":"ab","logprobs":{"tokens":["a","b"],"token_logprobs":[null,-0.5])"));
  CHECK(contains(r.body, R"("top_logprobs":[null,{"b":-0.5}],"text_offset":[0,1])"));
  CHECK(contains(r.body, R"("finish_reason":"length")"));
}

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

TEST_CASE("http_session: a long text at /tokenize holds nobody else up, and its client may leave",
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
  CHECK(c.read_reply().status == 100);
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

TEST_CASE("http_session: a silent stream carries keep-alive comments", "[net]") {
  runtime_config config;
  config.sse_keep_alive_interval_s = 0.05;
  running_server s{config};
  script one;
  one.hold = hold_at::prefill;
  s.engine.play(one);
  test_client c{s.port};
  c.send(post("/v1/chat/completions", chat_stream));
  CHECK_NOTHROW(c.read_until(": keep-alive\n\n"));
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

TEST_CASE("http_session: a request is cancelled by the id in its headers, once", "[net]") {
  running_server s;
  script one;
  one.hold = hold_at::decode;
  s.engine.play(one);
  test_client c{s.port}, other{s.port};
  c.send(post("/v1/chat/completions", chat_stream));
  const auto begin = c.read_until("Hello");
  const std::size_t at = begin.find("X-Troupe-Id: ") + 13;
  const std::string id = begin.substr(at, begin.find("\r\n", at) - at);
  other.send(post("/v1/requests/" + id + "/cancel", ""));
  CHECK(contains(other.read_reply().body, R"("cancelled":true)"));
  const auto data = sse_data(c.read_reply().body);
  CHECK(contains(data[data.size() - 2], R"("finish_reason":"cancelled")"));
  other.send(post("/v1/requests/" + id + "/cancel", ""));
  CHECK(contains(other.read_reply().body, R"("cancelled":false)"));
  CHECK(s.engine.cancels().size() == 1);
}
