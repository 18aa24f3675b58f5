#include <catch2/catch.hpp>

#include "net/wire_in.hpp"

using namespace troupe;
using namespace troupe::net;

namespace {

const wire_limits limits{{"main", "alias"}, 1000, 8};

api_request chat(const std::string& members) {
  auto parsed = parse_chat(R"({"messages":[{"role":"user","content":"hi"}])" + members + "}", limits);
  if (auto* e = std::get_if<api_error>(&parsed)) FAIL(e->message);
  return std::get<api_request>(parsed);
}

api_request completions(const std::string& body) {
  auto parsed = parse_completions(body, limits);
  if (auto* e = std::get_if<api_error>(&parsed)) FAIL(e->message);
  return std::get<api_request>(parsed);
}

api_error chat_error(const std::string& members) {
  auto parsed = parse_chat(R"({"messages":[{"role":"user","content":"hi"}])" + members + "}", limits);
  if (!std::holds_alternative<api_error>(parsed)) FAIL("accepted: " << members);
  return std::get<api_error>(parsed);
}

api_error body_error(const std::string& body) {
  auto parsed = parse_chat(body, limits);
  if (!std::holds_alternative<api_error>(parsed)) FAIL("accepted: " << body);
  return std::get<api_error>(parsed);
}

std::string nested(std::size_t levels) {
  return R"({"messages":[{"role":"user","content":"x"}],"metadata":{"a":)" + std::string(levels, '[') +
         std::string(levels, ']') + "}}";
}

}  // namespace

TEST_CASE("wire_in: defaults are those of the field table", "[net]") {
  const auto r = chat("");
  CHECK(r.model == "main");
  CHECK_FALSE(r.stream);
  REQUIRE(r.choices.size() == 1);
  const auto& one = r.choices[0];
  CHECK(one.sampling.temperature == 1);
  CHECK(one.sampling.top_p == 1);
  CHECK_FALSE(one.max_tokens);
  CHECK_FALSE(one.parse_special);
  CHECK(one.top_logprobs == -1);
  CHECK(chat("").choices[0].sampling.seed != one.sampling.seed);
  CHECK(completions(R"({"prompt":"x"})").choices[0].max_tokens == 16u);
  CHECK(completions(R"({"prompt":"x"})").choices[0].parse_special);
}

TEST_CASE("wire_in: fields arrive where they belong", "[net]") {
  const auto r = chat(R"(,"model":"alias","temperature":0,"top_p":0.5,"min_p":0.1,"top_k":-1,"seed":-3,"n":2,
    "stop":["a","b"],"stream":true,"stream_options":{"include_usage":true},"logprobs":true,"top_logprobs":3,
    "min_tokens":2.0,"max_completion_tokens":5,"max_tokens":9,"ignore_eos":true,"stop_token_ids":[1,999],"priority":-4,
    "include_stop_str_in_output":true,"deadlines":{"total_ms":50},"user":"u","unknown_field":{"x":1},"tools":[])");
  CHECK(r.model == "alias");
  CHECK(r.stream);
  CHECK(r.include_usage);
  REQUIRE(r.choices.size() == 2);
  const auto& one = r.choices[0];
  CHECK(one.sampling.temperature == 0);
  CHECK(one.sampling.top_k == -1);
  CHECK(one.sampling.seed == static_cast<std::uint64_t>(-3));
  CHECK(one.stop == std::vector<std::string>{"a", "b"});
  CHECK(one.min_tokens == 2);
  CHECK(one.max_tokens == 5u);
  CHECK(one.top_logprobs == 3);
  CHECK(one.stop_token_ids == std::vector<token_id>{1, 999});
  CHECK(one.priority == -4);
  CHECK(one.deadlines.total == 50);
  CHECK(one.ignore_eos);
}

TEST_CASE("wire_in: messages take strings, text parts and an assistant's null", "[net]") {
  auto parsed = parse_chat(R"({"messages":[{"role":"developer","content":"s"},{"role":"assistant","content":null},
    {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b\u0000"}]}]})", limits);
  REQUIRE(std::holds_alternative<api_request>(parsed));
  const auto& messages = std::get<std::vector<core::chat_message>>(std::get<api_request>(parsed).choices[0].prompt);
  REQUIRE(messages.size() == 3);
  CHECK(messages[0].role == "system");
  CHECK(messages[1].content.empty());
  CHECK(messages[2].content == std::string("a\nb\0", 4));
}

TEST_CASE("wire_in: prompts take four shapes, and a batch is prompts times n", "[net]") {
  CHECK(std::get<std::string>(completions(R"({"prompt":"x"})").choices[0].prompt) == "x");
  CHECK(std::get<std::vector<token_id>>(completions(R"({"prompt":[1,2]})").choices[0].prompt).size() == 2);
  const auto batch = completions(R"({"prompt":[[1],[2,3]],"n":2})");
  REQUIRE(batch.choices.size() == 4);
  CHECK(std::get<std::vector<token_id>>(batch.choices[3].prompt) == std::vector<token_id>{2, 3});
  CHECK(completions(R"({"prompt":["a","b"]})").choices.size() == 2);
  CHECK(completions(R"({"prompt":"x","max_tokens":0,"echo":true,"logprobs":0})").choices[0].max_tokens == 0u);
  CHECK_FALSE(completions(R"({"prompt":"x","max_tokens":-1})").choices[0].max_tokens);
}

TEST_CASE("wire_in: each wrong value names its field", "[net]") {
  const std::vector<std::pair<std::string, std::string>> wrong{
      {R"("temperature":2.1)", "temperature"}, {R"("temperature":"1")", "temperature"},
      {R"("top_p":-0.1)", "top_p"}, {R"("top_k":-2)", "top_k"}, {R"("top_k":1.5)", "top_k"},
      {R"("n":0)", "n"}, {R"("n":9)", "n"}, {R"("max_tokens":0)", "max_tokens"}, {R"("max_tokens":-2)", "max_tokens"},
      {R"("max_completion_tokens":0)", "max_completion_tokens"}, {R"("stop":"")", "stop"},
      {R"("stop":["a","b","c","d","e"])", "stop"}, {R"("stop":[1])", "stop[0]"}, {R"("stream":1)", "stream"},
      {R"("stream_options":{})", "stream_options"}, {R"("top_logprobs":2)", "top_logprobs"},
      {R"("logprobs":true,"top_logprobs":21)", "top_logprobs"}, {R"("seed":1e30)", "seed"},
      {R"("seed":18446744073709551615)", "seed"}, {R"("stop_token_ids":[1000])", "stop_token_ids[0]"},
      {R"("min_tokens":3,"max_tokens":2)", "min_tokens"}, {R"("deadlines":{"total_ms":0})", "deadlines.total_ms"},
      {R"("messages":[])", "messages"},
  };
  for (const auto& [members, param] : wrong) {
    CAPTURE(members);
    const auto e = param == "messages" ? body_error("{" + members + "}") : chat_error("," + members);
    CHECK(e.status == 400);
    CHECK(e.param == param);
    CHECK(e.message.find(param) != e.message.npos);
  }
  CHECK(body_error(R"({"messages":[{"role":"user"}]})").param == "messages[0].content");
  CHECK(body_error(R"({"messages":[{"role":"robot","content":"x"}]})").param == "messages[0].role");
  CHECK(body_error(R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})").param ==
        "messages[0].content[0].type");
  CHECK(body_error(R"({"messages":[7]})").param == "messages[0]");
}

TEST_CASE("wire_in: what this release cannot do is refused unless it is the default", "[net]") {
  for (const char* members :
       {R"("frequency_penalty":0.5)", R"("repetition_penalty":1.1)", R"("logit_bias":{"1":2})", R"("stop_boundary":"word")",
        R"("truncation":"auto")", R"("tools":[{"type":"function"}])", R"("response_format":{"type":"json_object"})",
        R"("chat_template":"x")", R"("prompt_logprobs":1)", R"("stop_repetition":{"ngram":1,"times":2})"}) {
    CAPTURE(members);
    CHECK(chat_error(std::string{","} + members).code == "unsupported_parameter");
  }
  CHECK_NOTHROW(chat(R"(,"frequency_penalty":0.0,"repetition_penalty":1,"logit_bias":{},"truncation":"disabled",
    "response_format":{"type":"text"},"bad_words":[],"tools":[{"type":"function"}],"tool_choice":"none","audio":null)"));
  auto best = parse_completions(R"({"prompt":"x","best_of":2})", limits);
  CHECK(std::get<api_error>(best).param == "best_of");
}

TEST_CASE("wire_in: bodies that are not strict JSON name the byte or the field", "[net]") {
  CHECK(body_error("").message.find("byte 0") != std::string::npos);
  CHECK(body_error(R"({"messages":[}])").message.find("byte 13") != std::string::npos);
  CHECK(body_error(R"({"a":1} x)").message.find("byte 8: unexpected bytes") != std::string::npos);
  CHECK(body_error(R"({"a":NaN})").message.find("byte 5") != std::string::npos);
  CHECK(body_error(R"({"a":"\ud800"})").message.find("lone surrogate") != std::string::npos);
  CHECK(body_error(R"({"a":"\udc00"})").message.find("lone surrogate") != std::string::npos);
  CHECK(body_error("{\"a\":\"\xff\"}").status == 400);
  CHECK(body_error("[]").message.find("must be a JSON object, not an array") != std::string::npos);
  CHECK(body_error(R"({"messages":[{"role":"user","content":"a","role":"user"}]})").param == "messages[0].role");
  CHECK(body_error(R"({"stream":true,"stream":true})").param == "stream");
}

TEST_CASE("wire_in: nesting is accepted up to 64 levels", "[net]") {
  CHECK(std::holds_alternative<api_request>(parse_chat(nested(62), limits)));
  CHECK(body_error(nested(70)).message.find("64 levels") != std::string::npos);
  CHECK(body_error(R"({"a":)" + std::string(100000, '[')).status == 400);
}

TEST_CASE("wire_in: an unknown model is 404", "[net]") {
  const auto e = chat_error(R"(,"model":"gpt")");
  CHECK(e.status == 404);
  CHECK(e.code == "model_not_found");
  CHECK(error_body(e) == R"({"error":{"message":"The model 'gpt' does not exist.","type":"invalid_request_error",)"
                         R"("param":"model","code":"model_not_found"}})");
}

TEST_CASE("wire_in: responses take string or item input, with instructions first", "[net]") {
  auto parsed = parse_responses(R"({"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"q"}]}],
    "instructions":"i","max_output_tokens":4,"metadata":{"k":"v"},"store":false})", limits, false);
  REQUIRE(std::holds_alternative<api_request>(parsed));
  const auto& r = std::get<api_request>(parsed);
  const auto& messages = std::get<std::vector<core::chat_message>>(r.choices[0].prompt);
  REQUIRE(messages.size() == 2);
  CHECK(messages[0].role == "system");
  CHECK(messages[1].content == "q");
  CHECK(r.responses.metadata == R"({"k":"v"})");
  CHECK_FALSE(r.responses.store);
  auto failing = parse_responses(R"({"input":[{"type":"function_call_output","call_id":"x","output":"y"}]})", limits, false);
  CHECK(std::get<api_error>(failing).status == 400);
}
