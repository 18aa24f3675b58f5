#include "tools/bench/load/stream_reader.hpp"

#include <fmt/core.h>

#include <catch2/catch.hpp>
#include <stdexcept>
#include <vector>

namespace {

using namespace troupe;

struct heard {
  stream_reader reader;
  std::vector<stream_event> events;
  void feed(std::string_view bytes) {
    reader.feed(bytes, [this](const stream_event& event) { events.push_back(event); });
  }
};

std::string chunk(const std::string& data) {
  return fmt::format("{:x}\r\n{}\r\n", data.size(), data);
}

const std::string event_head =
    "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

TEST_CASE("stream reader: a chunked event stream, in pieces of every size") {
  const std::string reply =
      event_head + chunk("data: {\"choices\":[{\"text\":\"a\"}]}\n\n") +
      chunk(": still there\n\n") + chunk("data: {\"choices\":[{\"te") +
      chunk(
          "xt\":\"b\"}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,"
          "\"completion_tokens\": 2}}\n\n") +
      chunk("data: [DONE]\n\n") + "0\r\nx: y\r\n\r\n";
  for (std::size_t size = 1; size <= reply.size(); ++size) {
    heard h;
    bool early = false;
    for (std::size_t at = 0; at < reply.size(); at += size) {
      early |= h.reader.complete();
      h.feed(std::string_view(reply).substr(at, size));
    }
    CHECK_FALSE(early);
    CHECK(h.reader.complete());
    CHECK(h.reader.status() == 200);
    REQUIRE(h.events.size() == 4);
    CHECK(h.events[0].text);
    CHECK(h.events[1].text);
    CHECK_FALSE(h.events[2].text);
    CHECK(h.events[2].prompt_tokens == 5u);
    CHECK(h.events[2].completion_tokens == 2u);
    CHECK(h.events[3].done);
  }
}

TEST_CASE("stream reader: a stream that ends with its connection, with carriage returns") {
  heard h;
  h.feed(
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; "
      "charset=utf-8\r\n\r\ndata:{\"text\":\"x\"}\r\n\r\ndata: [DONE]\r\n");
  CHECK(h.events.size() == 2);
  CHECK(h.reader.until_close());
  CHECK_FALSE(h.reader.complete());
}

TEST_CASE("stream reader: an error's body by length, behind an interim reply") {
  heard h;
  h.feed("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 503 Busy\r\nContent-Length: 5\r\n\r\nhe");
  CHECK_FALSE(h.reader.complete());
  h.feed("llo and more");
  CHECK(h.reader.complete());
  CHECK(h.reader.status() == 503);
  CHECK(h.reader.body() == "hello");
  heard empty;
  empty.feed("HTTP/1.1 204 No\r\nContent-Length: 0\r\n\r\n");
  CHECK(empty.reader.complete());
}

TEST_CASE("stream reader: what is no reply is refused, and a long body is kept in part") {
  for (const char* wrong : {"SSH-2.0\r\n", "HTTP/1.1\r\n", "HTTP/1.1 abc\r\n"}) {
    heard h;
    CHECK_THROWS_AS(h.feed(wrong), std::runtime_error);
  }
  heard chunked;
  CHECK_THROWS_WITH(chunked.feed(event_head + "zz\r\n"), Catch::Contains("chunk"));
  heard endless;
  CHECK_THROWS_WITH(endless.feed(std::string(2 << 20, 'x')), Catch::Contains("line"));
  heard big;
  big.feed("HTTP/1.1 500 x\r\n\r\n");
  for (int i = 0; i < 100; ++i) big.feed(std::string(10'000, 'y'));
  CHECK(big.reader.body().size() == 64u << 10);
}

TEST_CASE("stream reader: a piece counts when it has text, whatever the text says") {
  CHECK(read_event(R"({"choices":[{"delta":{"content":"\"text\":\"\""}}]})").text);
  CHECK(read_event(R"({"choices":[{"delta":{"reasoning_content": "hm"}}]})").text);
  CHECK_FALSE(read_event(R"({"choices":[{"delta":{"role":"assistant","content":""}}]})").text);
  CHECK_FALSE(read_event(R"({"choices":[{"delta":{"role":"assistant","content":null}}]})").text);
  CHECK_FALSE(read_event(R"({"choices":[{"text":"","finish_reason":"length"}]})").text);
  CHECK(read_event(R"({"choices":[{"text":"","finish_reason":"length"}]})").finished);
  CHECK_FALSE(read_event(R"({"choices":[{"text":"x","finish_reason":null}]})").finished);
  CHECK(read_event(R"({"error": {"message":"no"}})").error);
  CHECK_FALSE(read_event(R"({"choices":[{"text":"\"error\":{"}],"error":null})").error);
  const auto faked = read_event(R"({"choices":[{"text":"\"usage\":{\"completion_tokens\":9}"}]})");
  CHECK_FALSE(faked.completion_tokens);
  CHECK(faked.text);
}

TEST_CASE("stream reader: the server's rate of tokens is read from its timings alone") {
  const auto end = read_event(
      R"({"choices":[{"text":"","finish_reason":"length"}],"timings":{"predicted_n":6,"predicted_per_second":166.75}})");
  REQUIRE(end.tokens_per_s);
  CHECK(*end.tokens_per_s == 166.75);
  CHECK_FALSE(read_event(R"({"choices":[{"text":"\"timings\":{\"predicted_per_second\":9}"}]})")
                  .tokens_per_s);
}

}  // namespace
