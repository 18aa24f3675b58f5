#include "net/api/wire_in.hpp"

#include <catch2/catch.hpp>

#include "tests/net/api/parsed.hpp"

using namespace troupe;
using namespace troupe::net;
using namespace troupe::net::test;

TEST_CASE("wire_in: defaults are those of the field table", "[net]") {
  const auto r = chat("");
  CHECK(r.model == "main");
  CHECK_FALSE(r.stream);
  REQUIRE(r.prompts.size() == 1);
  CHECK(r.choices() == 1);
  const auto& one = r.prompts[0];
  CHECK(one.decode.sampling.temperature == 1);
  CHECK(one.decode.sampling.top_p == 1);
  CHECK_FALSE(one.decode.max_tokens);
  CHECK_FALSE(one.parse_special);
  CHECK(one.decode.top_logprobs == -1);
  CHECK(chat("").prompts[0].decode.sampling.seed != one.decode.sampling.seed);
  CHECK(completions(R"({"prompt":"x"})").prompts[0].decode.max_tokens == 16u);
  CHECK(completions(R"({"prompt":"x"})").prompts[0].parse_special);
}

TEST_CASE("wire_in: a priority is accepted by a server that schedules by priority", "[net]") {
  const auto limits_with = [](const char* policy) {
    runtime_config config;
    if (policy) config.scheduling_policy = policy;
    core::model_card card;
    card.name = "main";
    card.vocab = 1000;
    return limits_of(config, card);
  };
  const auto answer = [](const wire_limits& l, int priority) {
    return parse_completions(R"({"prompt":"x","priority":)" + std::to_string(priority) + "}", l);
  };
  const auto refused = answer(limits_with(nullptr), -5);
  REQUIRE(std::holds_alternative<api_error>(refused));
  CHECK(std::get<api_error>(refused).param == "priority");
  CHECK_THAT(std::get<api_error>(refused).message,
             Catch::Contains("-5") && Catch::Contains("--scheduling-policy"));
  CHECK(std::holds_alternative<api_request>(answer(limits_with("fcfs"), 0)));
  CHECK(std::get<api_request>(answer(limits_with("priority"), -5)).prompts[0].priority == -5);
}

TEST_CASE("wire_in: fields arrive where they belong", "[net]") {
  const auto r =
      chat(R"(,"model":"alias","temperature":0,"top_p":0.5,"min_p":0.1,"top_k":-1,"seed":-3,"n":2,
    "stop":["a","b"],"stream":true,"stream_options":{"include_usage":true},"logprobs":true,"top_logprobs":3,
    "min_tokens":2.0,"max_completion_tokens":5,"max_tokens":9,"ignore_eos":true,"stop_token_ids":[1,999],"priority":-4,
    "include_stop_str_in_output":true,"deadlines":{"total_ms":50},"user":"u","unknown_field":{"x":1},"tools":[])");
  CHECK(r.model == "alias");
  CHECK(r.stream);
  CHECK(r.include_usage);
  CHECK(r.n == 2);
  CHECK(r.choices() == 2);
  REQUIRE(r.prompts.size() == 1);
  const auto& one = r.prompts[0];
  CHECK(one.decode.sampling.temperature == 0);
  CHECK(one.decode.sampling.top_k == -1);
  CHECK(one.decode.sampling.seed == static_cast<std::uint64_t>(-3));
  CHECK(one.stop == std::vector<std::string>{"a", "b"});
  CHECK(one.decode.min_tokens == 2);
  CHECK(one.decode.max_tokens == 5u);
  CHECK(one.decode.top_logprobs == 3);
  CHECK(one.decode.stop_token_ids == std::vector<token_id>{1, 999});
  CHECK(one.priority == -4);
  CHECK(one.deadlines.total == 50);
  CHECK(one.decode.ignore_eos);
}

TEST_CASE("wire_in: messages take strings, text parts and an assistant's null", "[net]") {
  auto parsed = parse_chat(
      R"({"messages":[{"role":"developer","content":"s"},{"role":"assistant","content":null},
    {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b\u0000"}]}]})",
      limits);
  REQUIRE(std::holds_alternative<api_request>(parsed));
  const auto& messages =
      std::get<std::vector<core::chat_message>>(std::get<api_request>(parsed).prompts[0].prompt);
  REQUIRE(messages.size() == 3);
  CHECK(messages[0].role == "system");
  CHECK(messages[1].content.empty());
  CHECK(messages[2].content == std::string("a\nb\0", 4));
}

TEST_CASE("wire_in: prompts take four shapes, and a batch is prompts times n", "[net]") {
  CHECK(std::get<std::string>(completions(R"({"prompt":"x"})").prompts[0].prompt) == "x");
  CHECK(std::get<std::vector<token_id>>(completions(R"({"prompt":[1,2]})").prompts[0].prompt)
            .size() == 2);
  const auto batch = completions(R"({"prompt":[[1],[2,3]],"n":2})");
  CHECK(batch.choices() == 4);
  REQUIRE(batch.prompts.size() == 2);
  CHECK(std::get<std::vector<token_id>>(batch.prompts[0].prompt) == std::vector<token_id>{1});
  CHECK(std::get<std::vector<token_id>>(batch.prompts[1].prompt) == std::vector<token_id>{2, 3});
  CHECK(batch.prompts[0].decode == batch.prompts[1].decode);
  CHECK(completions(R"({"prompt":["a","b"]})").choices() == 2);
  CHECK(completions(R"({"prompt":"x","max_tokens":0,"echo":true,"logprobs":0})")
            .prompts[0]
            .decode.max_tokens == 0u);
  CHECK_FALSE(completions(R"({"prompt":"x","max_tokens":-1})").prompts[0].decode.max_tokens);
}

TEST_CASE("wire_in: responses take string or item input, with instructions first", "[net]") {
  auto parsed = parse_responses(
      R"({"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"q"}]}],
    "instructions":"i","max_output_tokens":4,"metadata":{"k":"v"},"store":false})",
      limits);
  REQUIRE(std::holds_alternative<api_request>(parsed));
  const auto& r = std::get<api_request>(parsed);
  const auto& messages = std::get<std::vector<core::chat_message>>(r.prompts[0].prompt);
  REQUIRE(messages.size() == 2);
  CHECK(messages[0].role == "system");
  CHECK(messages[1].content == "q");
  CHECK(r.responses.metadata == R"({"k":"v"})");
  CHECK_FALSE(r.responses.store);
  auto failing = parse_responses(
      R"({"input":[{"type":"function_call_output","call_id":"x","output":"y"}]})", limits);
  CHECK(std::get<api_error>(failing).status == 400);
}

TEST_CASE("wire_in: a WebSocket message is a request, a cancel, a steer or one error", "[net]") {
  const auto create = read_ws_message(
      R"({"type":"response.create","input":"q","stream":false,"max_output_tokens":4})", limits);
  REQUIRE(std::holds_alternative<api_request>(create));
  CHECK(std::get<api_request>(create).stream);  // there is no other way on a WebSocket
  CHECK(std::get<api_request>(create).prompts[0].decode.max_tokens == 4u);
  const auto cancel = read_ws_message(R"({"type":"response.cancel","response_id":"r"})", limits);
  REQUIRE(std::holds_alternative<ws_cancel>(cancel));
  CHECK(std::get<ws_cancel>(cancel).response_id == "r");
  CHECK(std::holds_alternative<ws_steer>(read_ws_message(R"({"type":"response.steer"})", limits)));

  const auto code_of = [](const char* text) {
    const auto read = read_ws_message(text, limits);
    REQUIRE(std::holds_alternative<api_error>(read));
    return std::get<api_error>(read).code.value_or("none");
  };
  CHECK(code_of("{") == "invalid_json");
  CHECK(code_of("{}") == "unknown_event_type");
  CHECK(code_of(R"({"type":"response.create","input":"q","top_p":2})") == "invalid_value");
  CHECK(code_of(R"({"type":"response.cancel","stream_id":"s"})") == "unsupported_parameter");
}
