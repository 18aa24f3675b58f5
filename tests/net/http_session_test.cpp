#include <catch2/catch.hpp>

#include "tests/net/test_client.hpp"

using namespace troupe;
using namespace troupe::net::test;

namespace {
const std::string chat_body = R"({"messages":[{"role":"user","content":"hi"}]})";
const std::string chat_stream = R"({"messages":[{"role":"user","content":"hi"}],"stream":true})";
}  // namespace

TEST_CASE("http_session: a chat stream is a role chunk, text chunks, an end chunk and DONE", "[net]") {
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
