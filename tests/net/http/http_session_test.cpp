#include "net/http/http_session.hpp"

#include <catch2/catch.hpp>

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
  CHECK(seen[0].decode.sampling.seed == 1);
  CHECK(seen[1].decode.sampling.seed == 2);
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

TEST_CASE("http_session: a comment interval of 0 means no keep-alive comments", "[net]") {
  runtime_config config;
  config.sse_keep_alive_interval_s = 0;
  running_server s{config};
  script one;
  one.pause = std::chrono::milliseconds{20};
  s.engine.play(one);
  test_client c{s.port};
  c.send(post("/v1/chat/completions", chat_stream));
  CHECK_FALSE(contains(c.read_reply().body, ": keep-alive"));
}
