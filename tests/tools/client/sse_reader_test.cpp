#include "tools/client/sse_reader.hpp"

#include <catch2/catch.hpp>
#include <stdexcept>
#include <vector>

using namespace troupe::api_client;

namespace {

using list = std::vector<std::string>;

list events(std::string_view body, std::size_t piece) {
  sse_reader reader;
  list all;
  for (std::size_t at = 0; at < body.size(); at += piece)
    reader.feed(body.substr(at, piece), [&](std::string_view data) { all.emplace_back(data); });
  return all;
}

}  // namespace

TEST_CASE("sse_reader: LF, CRLF and CR end lines alike, in pieces of any size") {
  for (const std::string end : {"\n", "\r\n", "\r"}) {
    const auto body = "event: x" + end + "data: one" + end + end + ": still there" + end + end +
                      "data:two" + end + "id: 7" + end + "data:  lines" + end + end +
                      "data: [DONE]" + end + end;
    for (std::size_t piece = 1; piece <= body.size(); ++piece)
      REQUIRE(events(body, piece) == list{"one", "two\n lines", "[DONE]"});
  }
}

TEST_CASE("sse_reader: an event may be empty, and one that is cut off is none") {
  REQUIRE(events("data:\n\n\n\ndata\n\nretry: 3\n\n", 100) == list{""});
  REQUIRE(events("data: a\n\ndata: b\n", 100) == list{"a"});
  REQUIRE(events("database: a\n\n", 100).empty());
}

TEST_CASE("sse_reader: an event of more than a mebibyte is refused, in one line or in many") {
  REQUIRE_THROWS_AS(events(std::string(2 << 20, 'x'), 4096), std::runtime_error);
  std::string lines;
  while (lines.size() < 2 << 20) lines += "data: " + std::string(1000, 'x') + "\n";
  REQUIRE_THROWS_AS(events(lines, 4096), std::runtime_error);
}
