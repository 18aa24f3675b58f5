#include "net/json/json_writer.hpp"

#include <catch2/catch.hpp>

#include "tests/net/test_client.hpp"

using namespace troupe::net;
using namespace troupe::net::test;

TEST_CASE("json_writer: F004 no character at which a reader ends a line goes out as it is",
          "[net]") {
  std::string out;
  append_json_escaped(out, "a\xE2\x80\xA8z\xE2\x80\xA9z\xC2\x85z\r\n\v\f\x1c\x1d\x1e");
  CHECK(out == R"(a\u2028z\u2029z\u0085z\r\n\u000b\u000c\u001c\u001d\u001e)");
  // Their neighbours are text.
  out.clear();
  append_json_escaped(out, "\xE2\x80\xA7\xE2\x80\xAA\xC2\x84\xC2\x86");
  CHECK(out == "\xE2\x80\xA7\xE2\x80\xAA\xC2\x84\xC2\x86");
}

TEST_CASE("json_writer: F004 JSON made elsewhere is put on one line", "[net]") {
  CHECK(on_one_line("{\"k\":\"a\xE2\x80\xA8"
                    "b\xC3\xA9\xC2\x85\"}") == "{\"k\":\"a\\u2028b\xC3\xA9\\u0085\"}");
}

TEST_CASE("json_writer: F004 an answer's stream is one line an event for every line splitter",
          "[net]") {
  running_server s;
  script one;
  one.pieces = {"a\xE2\x80\xA8", "\xC2\x85z"};
  s.engine.play(one);
  test_client c{s.port};
  c.send(post("/v1/chat/completions",
              R"({"messages":[{"role":"user","content":"hi"}],"stream":true})"));
  const auto body = c.read_reply().body;
  CHECK(contains(body, R"("content":"a\u2028")"));
  CHECK(contains(body, R"("content":"\u0085z")"));
  c.send(post("/v1/responses",
              "{\"input\":\"x\",\"metadata\":{\"k\":\"\xE2\x80\xA9\"},\"stream\":true}"));
  CHECK(contains(c.read_reply().body, R"({"k":"\u2029"})"));
}
