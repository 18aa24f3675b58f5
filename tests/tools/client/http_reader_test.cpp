#include "tools/client/http_reader.hpp"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <stdexcept>

using namespace troupe::api_client;
using Catch::Matchers::Contains;

namespace {

/// A reader, its connection's buffer and the body so far.
struct reading {
  explicit reading(bool answers_head = false) : reply{answers_head} {}
  void feed(std::string_view bytes) {
    unread += bytes;
    reply.feed(unread, [this](std::string_view piece) { body += piece; });
  }
  http_reader reply;
  std::string unread, body;
};

std::string chunk(std::string_view data) {
  return fmt::format("{:x}\r\n{}\r\n", data.size(), data);
}

const std::string chunked_head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

}  // namespace

TEST_CASE(
    "http_reader: chunks with an extension and trailers read the same in pieces of any size") {
  const auto all = chunked_head + chunk("hello ") + "5;name=value\r\nworld\r\n" +
                   "0\r\nX-Sum: 7\r\nX-More: 8\r\n\r\n";
  for (std::size_t size = 1; size <= all.size(); ++size) {
    reading r;
    for (std::size_t at = 0; at < all.size(); at += size) {
      REQUIRE_FALSE(r.reply.complete());
      r.feed(std::string_view{all}.substr(at, size));
    }
    REQUIRE(r.reply.complete());
    REQUIRE(r.body == "hello world");
    REQUIRE(r.reply.headers().size() == 1);  // the trailers are no fields of the head
  }
}

TEST_CASE("http_reader: a piece of the body is handed on when it comes, not with its chunk") {
  reading r;
  r.feed(chunked_head + "a\r\n123");
  REQUIRE(r.body == "123");
  r.feed("45");
  REQUIRE(r.body == "12345");
}

TEST_CASE("http_reader: a body by length ends there, and what stands behind it stays") {
  reading r;
  r.feed("HTTP/1.1 503 Busy\r\nContent-Length: 5\r\nRetry-After: 1\r\n\r\nhe");
  REQUIRE(r.reply.status() == 503);
  REQUIRE_FALSE(r.reply.complete());
  r.feed("lloHTTP/1.1 200 OK");
  REQUIRE(r.reply.complete());
  REQUIRE(r.body == "hello");
  REQUIRE(r.unread == "HTTP/1.1 200 OK");
  REQUIRE(r.reply.header("retry-AFTER") == "1");
  REQUIRE(r.reply.header("Retry") == "");

  reading empty;
  empty.feed("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
  REQUIRE(empty.reply.complete());
}

TEST_CASE("http_reader: only a body without a length may end with its connection") {
  reading open;
  open.feed("HTTP/1.1 200 OK\r\n\r\nsome");
  REQUIRE_FALSE(open.reply.complete());
  open.reply.end_of_stream();
  REQUIRE(open.reply.complete());
  REQUIRE(open.body == "some");

  for (const auto& cut :
       {std::string{"HTTP/1.1 200 OK\r\nContent-Le"},
        std::string{"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nsome"}, chunked_head + "9\r\nsome",
        chunked_head + chunk("some"), chunked_head + "0\r\nX-Sum: 7\r\n", std::string{}}) {
    reading r;
    r.feed(cut);
    r.reply.end_of_stream();
    INFO(cut);
    REQUIRE_FALSE(r.reply.complete());
  }
}

TEST_CASE("http_reader: replies without a body end with their head") {
  for (const auto status : {"204 No Content", "304 Not Modified"}) {
    reading r;
    r.feed(fmt::format("HTTP/1.1 {}\r\nContent-Length: 9\r\n\r\n", status));
    REQUIRE(r.reply.complete());
  }
  reading to_head{true};
  to_head.feed("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n");
  REQUIRE(to_head.reply.complete());
  REQUIRE(to_head.reply.header("content-length") == "9");
}

TEST_CASE("http_reader: interim replies are passed over, an upgrade leaves its frames alone") {
  const std::string all =
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
      "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n\x81\x01x";
  reading whole, bytes;
  whole.feed(all);
  for (const char c : all) bytes.feed({&c, 1});
  for (const auto* r : {&whole, &bytes}) {
    REQUIRE(r->reply.upgraded());
    REQUIRE(r->reply.header("link") == "");
    REQUIRE(r->unread == "\x81\x01x");
    REQUIRE(r->body.empty());
  }
}

TEST_CASE("http_reader: what is no reply is refused with a reason") {
  const auto refused = [](const std::string& bytes) {
    reading r;
    try {
      r.feed(bytes);
    } catch (const std::runtime_error& error) {
      return std::string{error.what()};
    }
    return std::string{"not refused"};
  };
  for (const auto& wrong : {std::string{"SSH-2.0-OpenSSH\r\n"}, std::string{"HTTP/1.1\r\n\r\n"},
                            std::string{"HTTP/1.1 abc\r\n\r\n"}, std::string{"HTTP/1.1 200 OK\n\n"},
                            std::string{"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"},
                            chunked_head + "zz\r\n", chunked_head + "1\r\nab\r\n0\r\n\r\n"})
    REQUIRE_THAT(refused(wrong), Contains("no HTTP/1 reply: "));
  REQUIRE_THAT(refused("HTTP/1.1 200 OK\r\nX: " + std::string(1 << 17, 'x')), Contains("limit"));
}
