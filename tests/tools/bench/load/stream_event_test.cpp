#include "tools/bench/load/stream_event.hpp"

#include <catch2/catch.hpp>

namespace {

using namespace troupe;

TEST_CASE("stream event: a piece counts when it has text, whatever the text says") {
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

TEST_CASE("stream event: the server's rate of tokens is read from its timings alone") {
  const auto end = read_event(
      R"({"choices":[{"text":"","finish_reason":"length"}],"timings":{"predicted_n":6,"predicted_per_second":166.75}})");
  REQUIRE(end.tokens_per_s);
  CHECK(*end.tokens_per_s == 166.75);
  CHECK_FALSE(read_event(R"({"choices":[{"text":"\"timings\":{\"predicted_per_second\":9}"}]})")
                  .tokens_per_s);
}

}  // namespace
