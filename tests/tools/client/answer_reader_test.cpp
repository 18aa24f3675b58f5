#include "tools/client/answer_reader.hpp"

#include <fmt/format.h>

#include <catch2/catch.hpp>

using namespace troupe::api_client;
using Catch::Matchers::Contains;

namespace {

const std::string stream_head =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
std::string chunk(const std::string& bytes) {
  return fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
}

/// Three events in chunks that cut them anywhere, and a comment.
const std::string stream_body =
    chunk(R"(data: {"choices":[{"text":")") + chunk("a\"}]}\n\n: ping\n\n") +
    chunk("data: {\"choices\":[{\"text\":\"b\"}]}\n") + chunk("\ndata: [DONE]\n\n") + "0\r\n\r\n";

std::string server_frame(unsigned char first, const std::string& payload) {
  std::string frame(1, static_cast<char>(first));
  frame += static_cast<char>(payload.size());
  return frame + payload;
}

const std::string upgrade = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n";

}  // namespace

TEST_CASE("answer_reader: a stream reads the same whole and byte by byte") {
  const auto all = stream_head + stream_body;
  answer_reader whole{transport::sse}, bytes{transport::sse};
  whole.feed(all);
  for (const char c : all) {
    REQUIRE_FALSE(bytes.over());
    bytes.feed({&c, 1});
  }
  for (const auto* reader : {&whole, &bytes}) {
    REQUIRE(reader->complete());
    REQUIRE(reader->text() == "ab");
    REQUIRE(reader->events() == 3);
  }
}

TEST_CASE("answer_reader: a cut answer is no answer") {
  answer_reader cut{transport::sse};
  cut.feed(stream_head + stream_body.substr(0, stream_body.size() - 5));
  REQUIRE_FALSE(cut.over());
  cut.end_of_stream();
  REQUIRE(cut.over());
  REQUIRE_FALSE(cut.complete());
  REQUIRE(cut.error() == "the server closed inside the answer");

  answer_reader without_done{transport::sse};
  without_done.feed("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  REQUIRE(without_done.error() == "the stream ended without [DONE]");

  answer_reader nothing{transport::plain};
  nothing.end_of_stream();
  REQUIRE(nothing.error() == "the server closed without an answer");
}

TEST_CASE("answer_reader: a plain answer ends with its length, an error keeps status and message") {
  answer_reader plain{transport::plain};
  plain.feed("HTTP/1.1 200 OK\r\nContent-Length: 27\r\n\r\n{\"choices\":[{\"text\":");
  REQUIRE(plain.events() == 1);
  REQUIRE_FALSE(plain.over());
  plain.feed("\"hi\"}]}");
  REQUIRE(plain.complete());
  REQUIRE(plain.text() == "hi");

  answer_reader refused{transport::sse};
  refused.feed("HTTP/1.1 503 Busy\r\nContent-Length: 2\r\n\r\nno");
  REQUIRE(refused.over());
  REQUIRE(refused.status() == 503);
  REQUIRE(refused.error() == "status 503: no");
}

TEST_CASE(
    "answer_reader: WebSocket messages may come in fragments, pings want a pong, a close is an "
    "error") {
  answer_reader reader{transport::websocket};
  reader.feed(upgrade);
  REQUIRE(reader.upgraded());
  reader.feed(server_frame(0x01, R"({"type":"response.output_text.)"));
  reader.feed(server_frame(0x89, "still there?"));
  reader.feed(server_frame(0x80, R"(delta","delta":"x"})"));
  std::string ping;
  REQUIRE(reader.take_ping(ping));
  REQUIRE(ping == "still there?");
  REQUIRE_FALSE(reader.take_ping(ping));
  REQUIRE(reader.text() == "x");
  reader.feed(server_frame(0x81, R"({"type":"response.incomplete"})"));
  REQUIRE(reader.complete());
  REQUIRE(reader.events() == 2);

  answer_reader closed{transport::websocket};
  closed.feed(upgrade + server_frame(0x88, ""));
  REQUIRE(closed.error() == "the server sent a close frame");
}

TEST_CASE("answer_reader: what is no answer ends with a reason, whatever the bytes") {
  const auto error_of = [](transport over, const std::string& bytes) {
    answer_reader reader{over};
    reader.feed(bytes);
    REQUIRE(reader.over());
    return reader.error();
  };
  REQUIRE_THAT(error_of(transport::plain, "SSH-2.0\r\n\r\n"), Contains("no HTTP/1 reply"));
  REQUIRE_THAT(error_of(transport::sse, stream_head + "zz\r\n"), Contains("chunk"));
  REQUIRE_THAT(error_of(transport::sse, stream_head + chunk("data: {x\n\n")), Contains("no JSON"));
  REQUIRE_THAT(error_of(transport::sse, stream_head + chunk("data: {\"error\":{\"a\":1}}\n\n")),
               Contains("error event"));
  // What follows an error in the same bytes is not looked at.
  REQUIRE_THAT(error_of(transport::sse, stream_head + chunk("data: {\"error\":1}\n\ndata: {x\n\n")),
               Contains("error event"));
  REQUIRE_THAT(error_of(transport::websocket, upgrade + server_frame(0x80, "x")),
               Contains("continues no message"));
  REQUIRE_THAT(error_of(transport::websocket, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"),
               Contains("answered with 200"));
  REQUIRE_THAT(error_of(transport::websocket, upgrade + server_frame(0x81, "[]")),
               Contains("no event"));
  REQUIRE_THAT(error_of(transport::websocket, upgrade + server_frame(0x81, R"({"type":"error"})")),
               Contains("error event"));
}
