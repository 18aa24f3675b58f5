#include <catch2/catch.hpp>

#include "net/api/responses_events.hpp"
#include "net/json/json_reader.hpp"
#include "tests/net/test_client.hpp"

using namespace troupe;
using namespace troupe::net;
using troupe::net::test::contains;
using troupe::net::test::sse_data;

namespace {

reply_meta meta() {
  return {"id-1", 1700000000, [](token_id t) { return std::string(1, static_cast<char>(t)); },
          [] { return std::int64_t{1700000001}; }};
}

api_request request_of(const std::string& path, const std::string& body) {
  const wire_limits limits{{"m"}, 0, 8};
  auto parsed = path == "chat"          ? parse_chat(body, limits)
                : path == "completions" ? parse_completions(body, limits)
                                        : parse_responses(body, limits);
  REQUIRE(std::holds_alternative<api_request>(parsed));
  return std::get<api_request>(std::move(parsed));
}

core::generation_delta scored(const std::string& text, token_id token, const std::string& bytes) {
  core::generation_delta d;
  d.text = text;
  d.completion_tokens = 1;
  d.tokens.push_back({token, bytes, -0.25f, {{'a', -0.25f}, {'b', -2.0f}}});
  return d;
}

core::generation_end ended(core::end_reason reason) {
  core::generation_end e;
  e.reason = reason;
  e.usage = {5, 1, 2};
  e.times = {0, 10, 4000, 10000, 20000};
  return e;
}

bool is_json(const std::string& text) {
  json_document d;
  return !d.parse_object(text, "text");
}

const std::string chat_body =
    R"({"messages":[{"role":"user","content":"x"}],"stream":true,"logprobs":true,"top_logprobs":1})";

}  // namespace

TEST_CASE("chat_encoder: log-probabilities come per token with raw bytes and a printable name",
          "[net]") {
  auto encoder = make_encoder(request_of("chat", chat_body), meta());
  const auto data = sse_data(encoder->text(0, scored("", 200, "\xC3")));
  REQUIRE(data.size() == 1);
  CHECK(is_json(data[0]));
  CHECK(contains(data[0],
                 "\"content\":[{\"token\":\"\xEF\xBF\xBD\",\"logprob\":-0.25,\"bytes\":[195],\"top_"
                 "logprobs\":["
                 "{\"token\":\"a\",\"logprob\":-0.25,\"bytes\":[97]}]}],\"refusal\":null}"));
}

TEST_CASE("chat_encoder: stop reasons are the string, the token, or null", "[net]") {
  auto encoder = make_encoder(request_of("chat", chat_body), meta());
  auto e = ended(core::end_reason::stop_string);
  e.stop_string = "\n\"";
  CHECK(contains(encoder->end(0, e), R"("finish_reason":"stop","stop_reason":"\n\"")"));
  e = ended(core::end_reason::stop_token);
  e.stop_token = 42;
  CHECK(contains(encoder->end(0, e), R"("finish_reason":"stop","stop_reason":42)"));
  CHECK(contains(encoder->end(0, ended(core::end_reason::length)),
                 R"("finish_reason":"length","stop_reason":null)"));
}

TEST_CASE("encoders: low confidence and repetition are answers that finish with stop on every wire",
          "[net]") {
  for (const auto reason : {core::end_reason::stop_confidence, core::end_reason::stop_repetition}) {
    CHECK_FALSE(error_of(ended(reason), "messages"));
    CHECK(std::string{finish_reason_of(ended(reason))} == "stop");
    for (const char* path : {"chat", "completions"}) {
      const auto body = path == std::string{"chat"} ? chat_body : R"({"prompt":"x"})";
      auto encoder = make_encoder(request_of(path, body), meta());
      CHECK(
          contains(encoder->end(0, ended(reason)), R"("finish_reason":"stop","stop_reason":null)"));
      encoder->collect_end(0, ended(reason));
      CHECK(contains(encoder->whole(), R"("finish_reason":"stop","stop_reason":null)"));
    }
    responses_events events{request_of("responses", R"({"input":"x"})"), meta()};
    events.begin();
    CHECK(events.finish(ended(reason)).back().type == "response.completed");
  }
}

TEST_CASE("encoders: cached tokens are in the usage of every wire", "[net]") {
  const std::string details = R"("prompt_tokens_details":{"cached_tokens":1})";
  for (const char* path : {"chat", "completions"}) {
    const std::string options = R"("stream":true,"stream_options":{"include_usage":true}})";
    const auto body = path == std::string{"chat"}
                          ? R"({"messages":[{"role":"user","content":"x"}],)"
                          : R"({"prompt":"x",)";
    auto encoder = make_encoder(request_of(path, body + options), meta());
    encoder->end(0, ended(core::end_reason::length));
    CHECK(contains(encoder->close(), details));
    encoder->collect_end(0, ended(core::end_reason::length));
    CHECK(contains(encoder->whole(), details));
  }
  responses_events events{request_of("responses", R"({"input":"x"})"), meta()};
  events.begin();
  const auto all = events.finish(ended(core::end_reason::end_token));
  CHECK(contains(all.back().json, R"("input_tokens_details":{"cached_tokens":1,)"));
  CHECK(contains(events.object(), R"("input_tokens_details":{"cached_tokens":1,)"));
}

TEST_CASE("completions_encoder: tokens that are no whole text are keys of their own", "[net]") {
  auto m = meta();
  m.token_bytes = [](token_id t) {
    return t < 3 ? std::string(1, static_cast<char>(0xC0 + t)) : std::string{"same"};
  };
  auto encoder =
      make_encoder(request_of("completions", R"({"prompt":"x","stream":true,"logprobs":4})"), m);
  core::generation_delta d;
  d.tokens.push_back({1, "\xC1", -0.5f, {{1, -0.5f}, {2, -1.0f}, {7, -2.0f}, {8, -3.0f}}});
  const auto data = sse_data(encoder->text(0, d));
  REQUIRE(data.size() == 1);
  CHECK(is_json(data[0]));  // which refuses a key given twice
  CHECK(contains(data[0], R"("tokens":["bytes:\\xc1"])"));
  CHECK(contains(
      data[0],
      R"("top_logprobs":[{"bytes:\\xc1":-0.5,"bytes:\\xc2":-1,"same":-2,"token_id:8":-3}])"));
}

TEST_CASE("responses_events: the object repeats the request's penalties", "[net]") {
  const auto body = R"({"input":"x","presence_penalty":0.5,"frequency_penalty":-1})";
  responses_events events{request_of("responses", body), meta()};
  CHECK(contains(events.object(), R"("presence_penalty":0.5,"frequency_penalty":-1)"));
}

TEST_CASE("chat_encoder: the end carries the last text first and the rates of the engine",
          "[net]") {
  auto encoder = make_encoder(request_of("chat", chat_body), meta());
  auto e = ended(core::end_reason::end_token);
  e.last.text = "tail";
  const auto data = sse_data(encoder->end(0, e));
  REQUIRE(data.size() == 2);
  CHECK(contains(data[0], R"("content":"tail")"));
  // 5 prompt tokens of which 1 cached in 4 ms; 2 tokens are one interval of 10 ms.
  CHECK(contains(data[1], R"("cache_n":1,"prompt_n":4,"prompt_ms":4)"));
  CHECK(contains(data[1], R"("prompt_per_second":1000)"));
  CHECK(contains(data[1], R"("predicted_per_second":100)"));
}

TEST_CASE("completions_encoder: offsets count characters over the whole stream", "[net]") {
  auto encoder = make_encoder(
      request_of("completions", R"({"prompt":"x","stream":true,"logprobs":1})"), meta());
  CHECK(contains(encoder->text(0, scored("\xC3\xA4", 1, "\xC3\xA4")), R"("text_offset":[0])"));
  CHECK(contains(encoder->text(0, scored("b", 'b', "b")),
                 R"("top_logprobs":[{"a":-0.25,"b":-0.25}],"text_offset":[1])"));
}

TEST_CASE("encoders: usage counts each prompt once and every choice", "[net]") {
  auto encoder = make_encoder(request_of("completions", R"({"prompt":["x","y"],"n":2})"), meta());
  for (std::size_t i = 0; i < 4; ++i) encoder->collect_end(i, ended(core::end_reason::length));
  const auto whole = encoder->whole();
  CHECK(is_json(whole));
  CHECK(contains(whole, R"("prompt_tokens":10,"completion_tokens":8,"total_tokens":18)"));
  CHECK(contains(whole, R"("cached_tokens":2)"));
}

TEST_CASE("responses_events: the object has every required key", "[net]") {
  responses_events events{request_of("responses", R"({"input":"x","max_output_tokens":2})"),
                          meta()};
  events.begin();
  const auto all = events.finish(ended(core::end_reason::length));
  CHECK(all.back().type == "response.incomplete");
  CHECK(contains(all.back().json, R"("incomplete_details":{"reason":"max_output_tokens"})"));
  json_document d;
  REQUIRE_FALSE(d.parse_object(events.object(), "object"));
  for (const char* key : {"id",
                          "object",
                          "created_at",
                          "completed_at",
                          "status",
                          "incomplete_details",
                          "model",
                          "previous_response_id",
                          "instructions",
                          "output",
                          "error",
                          "tools",
                          "tool_choice",
                          "truncation",
                          "parallel_tool_calls",
                          "text",
                          "top_p",
                          "temperature",
                          "presence_penalty",
                          "frequency_penalty",
                          "top_logprobs",
                          "reasoning",
                          "user",
                          "safety_identifier",
                          "prompt_cache_key",
                          "max_output_tokens",
                          "max_tool_calls",
                          "store",
                          "background",
                          "service_tier",
                          "metadata",
                          "usage"}) {
    CAPTURE(key);
    simdjson::dom::element value;
    CHECK_FALSE(d.object().at_key(key).get(value));
  }
}

TEST_CASE("responses_events: a failure is an error, then response.failed with what there was",
          "[net]") {
  responses_events events{request_of("responses", R"({"input":"x"})"), meta()};
  events.begin();
  events.delta("part");
  const auto all = events.fail(server_error("step_failed", "no"));
  REQUIRE(all.size() == 2);
  CHECK(contains(all[0].json, R"({"type":"error","sequence_number":5,"code":"step_failed")"));
  CHECK(all[1].type == "response.failed");
  CHECK(contains(all[1].json, R"("text":"part")"));
}

TEST_CASE("json_writer: control characters and broken bytes never leave as they are", "[net]") {
  json_writer out;
  out.open_object().key("a\n").string(std::string("\0\x1f\x7f\xff\xED\xA0\x80", 7)).close_object();
  CHECK(out.text() ==
        "{\"a\\n\":\"\\u0000\\u001f\\u007f\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\"}");
  CHECK(json_writer{}.number(std::numeric_limits<double>::infinity()).text() == "null");
}
