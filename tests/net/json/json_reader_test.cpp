#include "net/json/json_reader.hpp"

#include <catch2/catch.hpp>
#include <utility>
#include <vector>

#include "tests/net/api/parsed.hpp"

using namespace troupe;
using namespace troupe::net;
using namespace troupe::net::test;

namespace {

std::string nested(std::size_t levels) {
  return R"({"messages":[{"role":"user","content":"x"}],"metadata":{"a":)" +
         std::string(levels, '[') + std::string(levels, ']') + "}}";
}

}  // namespace

TEST_CASE("json_reader: bodies that are not strict JSON name the byte or the field", "[net]") {
  const auto says = [](const std::string& body, const char* words) {
    CAPTURE(body);
    const auto e = body_error(body);
    CHECK(e.status == 400);
    CHECK_THAT(e.message, Catch::Contains(words));
  };
  says("", "byte 0: unexpected end of input");
  says(R"({"messages":[}])", "byte 13: unexpected '}'");
  says(R"({"a":1} x)", "byte 8: ");
  says(R"({"a":1} {"b":2})", "byte 8: unexpected '{'; expected end of input");
  says(R"({"a":NaN})", "byte 5: invalid literal");
  says(R"({"a":-})", "byte 6: invalid number");
  says(R"({"a":01})", "byte 6: unexpected number literal");
  says(R"({"a" 1})", "byte 5: unexpected number literal; expected ':'");
  says(R"({"a":1,})", "byte 7: unexpected '}'");
  says("{\"a\":\"b", "byte 7: invalid string: missing closing quote");
  says("{\"a\":\"b\nc\"}", "byte 7: invalid string: control character U+000A (LF)");
  says(R"({"a":"\x"})", "byte 7: invalid string: forbidden character after backslash");
  says(R"({"a":"\ud800"})", "surrogate");
  says(R"({"a":"\ud800\u0041"})", "surrogate");
  says(R"({"a":"\udc00"})", "surrogate");
  says("{\"a\":\"\xff\"}", "byte 6: invalid string: ill-formed UTF-8 byte");
  // What was read of a long string is not repeated.
  CHECK(body_error("{\"a\":\"" + std::string(100'000, 'x')).message.size() < 200);
  CHECK(body_error("[]").message.find("must be a JSON object, not an array") != std::string::npos);
  CHECK(body_error(R"({"messages":[{"role":"user","content":"a","role":"user"}]})").param ==
        "messages[0].role");
  CHECK(body_error(R"({"stream":true,"stream":true})").param == "stream");
}

TEST_CASE("json_reader: nesting is accepted up to 64 levels", "[net]") {
  CHECK(std::holds_alternative<api_request>(parse_chat(nested(62), limits)));
  CHECK(body_error(nested(70)).message.find("64 levels") != std::string::npos);
  CHECK(body_error(R"({"a":)" + std::string(100000, '[')).status == 400);
}

TEST_CASE("json_reader: an object has a limited number of members, and faults name their path",
          "[net]") {
  std::string members = "\"k0\":1";
  for (int i = 1; i <= 4096; ++i) members += ",\"k" + std::to_string(i) + "\":1";
  CHECK(chat_error(R"(,"metadata":{)" + members + "}").message ==
        "'metadata' has 4097 members, allowed are 4096.");
  CHECK(chat_error(R"(,"x":[1,{"a":[[true,{"b":1,"b":2}]]}])").param == "x[1].a[0][1].b");
}

TEST_CASE("json_reader: D2 a field that is not read may hold a number of any size", "[net]") {
  for (const char* number :
       {"18446744073709551616", "-9223372036854775809", "1e999", "-12e400", "1e-999"}) {
    CAPTURE(number);
    const std::string value{number};
    CHECK_NOTHROW(chat(",\"unknown\":" + value));
    CHECK_NOTHROW(chat(",\"metadata\":{\"a\":" + value + "},\"user\":[" + value + "]"));
    // Two of them, and one inside a string, which is text.
    CHECK_NOTHROW(chat(",\"x\":[" + value + "," + value + ",\"\\\"" + value + "\"]"));
  }
}

TEST_CASE("json_reader: D2 a field that is read names itself when its number is too large",
          "[net]") {
  const std::vector<std::pair<std::string, std::string>> wrong{
      {R"("seed":123456789012345678901234567890)", "seed"},
      {R"("seed":-9223372036854775809)", "seed"},
      {R"("seed":18446744073709551615)", "seed"},
      {R"("temperature":1e999)", "temperature"},
      {R"("temperature":-1e999)", "temperature"},
      {R"("logit_bias":{"1":1e400})", "logit_bias.1"},
      {R"("stop_token_ids":[1,99999999999999999999])", "stop_token_ids[1]"},
      {R"("deadlines":{"total_ms":1e999})", "deadlines.total_ms"},
  };
  for (const auto& [members, param] : wrong) {
    CAPTURE(members);
    const auto e = chat_error("," + members);
    CHECK(e.status == 400);
    CHECK(e.param == param);
    CHECK_THAT(e.message, Catch::Contains(param));
  }
}

TEST_CASE("json_reader: D2 a fault behind a large number is named at its own byte", "[net]") {
  CHECK_THAT(body_error(R"({"a":18446744073709551616,"b":})").message,
             Catch::Contains("byte 30: unexpected '}'"));
  CHECK_THAT(body_error(R"({"a":1e999,"b":})").message, Catch::Contains("byte 15: unexpected '}'"));
  CHECK(body_error(R"({"a":1.e999})").status == 400);
  CHECK(body_error(R"({"a":00018446744073709551616})").status == 400);
}

TEST_CASE("json_reader: two documents of one thread do not share what they read", "[net]") {
  json_document first, second;
  REQUIRE_FALSE(first.parse_object(R"({"a":"one"})", "text"));
  REQUIRE_FALSE(second.parse_object(R"({"a":"two"})", "text"));
  CHECK(as_text(*find(first.object(), "a")) == std::string_view{"one"});
  CHECK(as_text(*find(second.object(), "a")) == std::string_view{"two"});
}

TEST_CASE("json_reader: a parser that is used again keeps the limit of nesting", "[net]") {
  for (int round = 0; round < 3; ++round) {
    CHECK_THAT(body_error(nested(70)).message, Catch::Contains("64 levels"));
    CHECK_NOTHROW(chat(R"(,"metadata":{"a":")" + std::string(30'000, 'x') + "\"}"));
  }
}
