#include "net/api/wire_in.hpp"

#include <catch2/catch.hpp>

using namespace troupe;
using namespace troupe::net;

namespace {

const wire_limits limits{{"main", "alias"}, 1000, 8};

api_request chat(const std::string& members) {
  auto parsed =
      parse_chat(R"({"messages":[{"role":"user","content":"hi"}])" + members + "}", limits);
  if (auto* e = std::get_if<api_error>(&parsed)) FAIL(e->message);
  return std::get<api_request>(parsed);
}

api_request completions(const std::string& body) {
  auto parsed = parse_completions(body, limits);
  if (auto* e = std::get_if<api_error>(&parsed)) FAIL(e->message);
  return std::get<api_request>(parsed);
}

api_error chat_error(const std::string& members) {
  auto parsed =
      parse_chat(R"({"messages":[{"role":"user","content":"hi"}])" + members + "}", limits);
  if (!std::holds_alternative<api_error>(parsed)) FAIL("accepted: " << members);
  return std::get<api_error>(parsed);
}

api_error body_error(const std::string& body) {
  auto parsed = parse_chat(body, limits);
  if (!std::holds_alternative<api_error>(parsed)) FAIL("accepted: " << body);
  return std::get<api_error>(parsed);
}

std::string nested(std::size_t levels) {
  return R"({"messages":[{"role":"user","content":"x"}],"metadata":{"a":)" +
         std::string(levels, '[') + std::string(levels, ']') + "}}";
}

}  // namespace

TEST_CASE("wire_in: defaults are those of the field table", "[net]") {
  const auto r = chat("");
  CHECK(r.model == "main");
  CHECK_FALSE(r.stream);
  REQUIRE(r.choices.size() == 1);
  const auto& one = r.choices[0];
  CHECK(one.decode.sampling.temperature == 1);
  CHECK(one.decode.sampling.top_p == 1);
  CHECK_FALSE(one.decode.max_tokens);
  CHECK_FALSE(one.parse_special);
  CHECK(one.decode.top_logprobs == -1);
  CHECK(chat("").choices[0].decode.sampling.seed != one.decode.sampling.seed);
  CHECK(completions(R"({"prompt":"x"})").choices[0].decode.max_tokens == 16u);
  CHECK(completions(R"({"prompt":"x"})").choices[0].parse_special);
}

TEST_CASE("wire_in: a priority is for a server that is told to go by it", "[net]") {
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
  CHECK(std::get<api_request>(answer(limits_with("priority"), -5)).choices[0].priority == -5);
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
  REQUIRE(r.choices.size() == 2);
  const auto& one = r.choices[0];
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
      std::get<std::vector<core::chat_message>>(std::get<api_request>(parsed).choices[0].prompt);
  REQUIRE(messages.size() == 3);
  CHECK(messages[0].role == "system");
  CHECK(messages[1].content.empty());
  CHECK(messages[2].content == std::string("a\nb\0", 4));
}

TEST_CASE("wire_in: prompts take four shapes, and a batch is prompts times n", "[net]") {
  CHECK(std::get<std::string>(completions(R"({"prompt":"x"})").choices[0].prompt) == "x");
  CHECK(std::get<std::vector<token_id>>(completions(R"({"prompt":[1,2]})").choices[0].prompt)
            .size() == 2);
  const auto batch = completions(R"({"prompt":[[1],[2,3]],"n":2})");
  REQUIRE(batch.choices.size() == 4);
  CHECK(std::get<std::vector<token_id>>(batch.choices[3].prompt) == std::vector<token_id>{2, 3});
  CHECK(completions(R"({"prompt":["a","b"]})").choices.size() == 2);
  CHECK(completions(R"({"prompt":"x","max_tokens":0,"echo":true,"logprobs":0})")
            .choices[0]
            .decode.max_tokens == 0u);
  CHECK_FALSE(completions(R"({"prompt":"x","max_tokens":-1})").choices[0].decode.max_tokens);
}

TEST_CASE("wire_in: each wrong value names its field", "[net]") {
  const std::vector<std::pair<std::string, std::string>> wrong{
      {R"("temperature":2.1)", "temperature"},
      {R"("temperature":"1")", "temperature"},
      {R"("top_p":-0.1)", "top_p"},
      {R"("top_k":-2)", "top_k"},
      {R"("top_k":1.5)", "top_k"},
      {R"("n":0)", "n"},
      {R"("n":9)", "n"},
      {R"("max_tokens":0)", "max_tokens"},
      {R"("max_tokens":-2)", "max_tokens"},
      {R"("max_completion_tokens":0)", "max_completion_tokens"},
      {R"("stop":"")", "stop"},
      {R"("stop":["a","b","c","d","e"])", "stop"},
      {R"("stop":[1])", "stop[0]"},
      {R"("stream":1)", "stream"},
      {R"("stream_options":{})", "stream_options"},
      {R"("top_logprobs":2)", "top_logprobs"},
      {R"("logprobs":true,"top_logprobs":21)", "top_logprobs"},
      {R"("seed":1e30)", "seed"},
      {R"("seed":18446744073709551615)", "seed"},
      {R"("stop_token_ids":[1000])", "stop_token_ids[0]"},
      {R"("min_tokens":3,"max_tokens":2)", "min_tokens"},
      {R"("deadlines":{"total_ms":0})", "deadlines.total_ms"},
      {R"("messages":[])", "messages"},
      {R"("repetition_penalty":0)", "repetition_penalty"},
      {R"("repetition_penalty":1e-300)", "repetition_penalty"},
      {R"("repetition_penalty":10.1)", "repetition_penalty"},
      {R"("repetition_penalty":"1")", "repetition_penalty"},
      {R"("presence_penalty":2.1)", "presence_penalty"},
      {R"("frequency_penalty":-2.1)", "frequency_penalty"},
      {R"("frequency_penalty":true)", "frequency_penalty"},
      {R"("logit_bias":[])", "logit_bias"},
      {R"("logit_bias":{"1":100.5})", "logit_bias.1"},
      {R"("logit_bias":{"1":"2"})", "logit_bias.1"},
      {R"("logit_bias":{"1000":1})", "logit_bias.1000"},
      {R"("logit_bias":{"-1":1})", "logit_bias.-1"},
      {R"("stop_boundary":1)", "stop_boundary"},
      {R"("stop_boundary":"words")", "stop_boundary"},
      {R"("stop_confidence":3)", "stop_confidence"},
      {R"("stop_confidence":{"top_k":21})", "stop_confidence.top_k"},
      {R"("stop_confidence":{"mass":1.5})", "stop_confidence.mass"},
      {R"("stop_confidence":{"mass":"a"})", "stop_confidence.mass"},
      {R"("stop_confidence":{"steps":0})", "stop_confidence.steps"},
      {R"("stop_confidence":{"steps":1.5})", "stop_confidence.steps"},
      {R"("stop_confidence":{"step":1})", "stop_confidence.step"},
      {R"("stop_repetition":[1,2])", "stop_repetition"},
      {R"("stop_repetition":{"ngram":1})", "stop_repetition.times"},
      {R"("stop_repetition":{"times":2})", "stop_repetition.ngram"},
      {R"("stop_repetition":{"ngram":65,"times":2})", "stop_repetition.ngram"},
      {R"("stop_repetition":{"ngram":1,"times":1})", "stop_repetition.times"},
      {R"("stop_repetition":{"ngram":1,"times":2,"n":1})", "stop_repetition.n"},
      {R"("deadlines":{"totl_ms":5})", "deadlines.totl_ms"},
      {R"("deadlines":{"total_ms":"5"})", "deadlines.total_ms"},
      {R"("cache_salt":1)", "cache_salt"},
      {R"("on_disconnect":"keep")", "on_disconnect"},
      {R"("on_disconnect":false)", "on_disconnect"},
  };
  for (const auto& [members, param] : wrong) {
    CAPTURE(members);
    const auto e =
        param == "messages" ? body_error("{" + members + "}") : chat_error("," + members);
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

TEST_CASE("wire_in: penalties, biases and the stops of our own arrive where they belong", "[net]") {
  const auto one = chat(R"(,"repetition_penalty":1.5,"presence_penalty":-2,"frequency_penalty":0.25,
    "logit_bias":{"20":-100,"3":0.5},"stop_boundary":"word","stop_confidence":{"mass":0.5,"steps":2.0},
    "stop_repetition":{"ngram":64,"times":2},"cache_salt":"","on_disconnect":"keep_prefix")")
                       .choices[0];
  CHECK(one.decode.sampling.repetition_penalty == 1.5f);
  CHECK(one.decode.sampling.presence_penalty == -2.0f);
  CHECK(one.decode.sampling.frequency_penalty == 0.25f);
  CHECK(one.decode.sampling.logit_bias ==
        std::vector<std::pair<token_id, float>>{{3, 0.5f}, {20, -100.0f}});
  CHECK(one.boundary == stop_boundary::word);
  CHECK(one.decode.confidence == confidence_stop{1, 0.5f, 2});
  CHECK(one.repetition == repetition_stop{64, 2});
  CHECK(one.cache_salt == std::string{});
  CHECK(one.disconnect == on_disconnect::keep_prefix);
  const auto plain =
      chat(
          R"(,"stop_boundary":"none","stop_confidence":null,"logit_bias":{},"on_disconnect":"stop")")
          .choices[0];
  CHECK(plain.boundary == stop_boundary::none);
  CHECK_FALSE(plain.decode.confidence);
  CHECK_FALSE(plain.repetition);
  CHECK_FALSE(plain.cache_salt);
  CHECK_FALSE(plain.decode.sampling.needs_history());
  CHECK(plain.disconnect == on_disconnect::stop);
  CHECK_FALSE(chat("").choices[0].disconnect);
  CHECK(chat(R"(,"stop_boundary":"line")").choices[0].boundary == stop_boundary::line);
  CHECK(chat(R"(,"stop_confidence":{})").choices[0].decode.confidence == confidence_stop{});
  auto parsed =
      parse_responses(R"({"input":"x","stop_repetition":{"ngram":1,"times":2}})", limits, false);
  CHECK(std::get<api_request>(parsed).choices[0].repetition == repetition_stop{1, 2});
  CHECK(completions(R"({"prompt":"x","frequency_penalty":1})")
            .choices[0]
            .decode.sampling.frequency_penalty == 1.0f);
}

TEST_CASE("wire_in: a mistyped word names the one that was meant", "[net]") {
  const auto says = [](const std::string& members, const char* words) {
    CAPTURE(members);
    CHECK(chat_error("," + members).message.find(words) != std::string::npos);
  };
  says(R"("stop_confidence":{"step":1})", "Did you mean 'steps'?");
  says(R"("stop_repetition":{"ngrams":1,"times":2})", "Did you mean 'ngram'?");
  says(R"("deadlines":{"totl_ms":5})", "Did you mean 'total_ms'?");
  says(R"("stop_boundary":"words")", "Did you mean 'word'?");
  says(R"("on_disconnect":"keep-prefix")", "Did you mean 'keep_prefix'?");
  says(R"("deadlines":{"x":5})", "'deadlines' takes queue_ms, first_token_ms, total_ms.");
  CHECK(chat_error(R"(,"deadlines":{")" + std::string(100'000, 'x') + R"(":5})").message.size() <
        400);
}

TEST_CASE("wire_in: the keys of logit_bias are token ids, at most 1,024 of them", "[net]") {
  for (const char* key : {"a", "", "01", "+1", "1.0", " 1", "99999999999999999999"}) {
    CAPTURE(key);
    const auto e = chat_error(std::string{R"(,"logit_bias":{")"} + key + R"(":1})");
    CHECK(e.param == std::string{"logit_bias."} + key);
    CHECK(e.message.find(key) != std::string::npos);
  }
  const auto biases = [](int count) {
    std::string all;
    for (int i = 0; i < count; ++i) all += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\":1";
    return R"({"prompt":"x","logit_bias":{)" + all + "}}";
  };
  const wire_limits large{{"main"}, 0, 8};
  CHECK(std::holds_alternative<api_request>(parse_completions(biases(1024), large)));
  const auto e = std::get<api_error>(parse_completions(biases(1025), large));
  CHECK(e.param == "logit_bias");
  CHECK(e.message.find("1024") != std::string::npos);
}

TEST_CASE("wire_in: cache_salt takes 256 bytes", "[net]") {
  const auto salt = [](std::size_t n) { return R"(,"cache_salt":")" + std::string(n, 's') + "\""; };
  CHECK(chat(salt(256)).choices[0].cache_salt->size() == 256);
  const auto e = chat_error(salt(257));
  CHECK(e.param == "cache_salt");
  CHECK(e.message.find("257") != std::string::npos);
}

TEST_CASE(
    "wire_in: C067 empty, too many, too long and wrong stops are refused, null and [] are none",
    "[net]") {
  for (const char* stop : {R"("")", R"([""])", R"(["","X"])", R"(["X",""])", "7", "[7]",
                           R"(["a",null])", R"({"a":1})", "true"}) {
    CAPTURE(stop);
    const auto e = chat_error(std::string{R"(,"stop":)"} + stop);
    CHECK(e.status == 400);
    REQUIRE(e.param);
    CHECK(e.param->starts_with("stop"));
  }
  CHECK(chat(R"(,"stop":null)").choices[0].stop.empty());
  CHECK(chat(R"(,"stop":[])").choices[0].stop.empty());
  CHECK(chat(R"(,"stop":[" "])").choices[0].stop == std::vector<std::string>{" "});
  for (const int count : {5, 1000}) {
    std::string list;
    for (int i = 0; i < count; ++i) list += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\"";
    const auto e = chat_error(R"(,"stop":[)" + list + "]");
    CHECK(e.param == "stop");
    CHECK(e.message.find(std::to_string(count)) != std::string::npos);
    CHECK(e.message.find("allowed are 4") != std::string::npos);
  }
  CHECK(chat(R"(,"stop":")" + std::string(1024, 'x') + "\"").choices[0].stop.size() == 1);
  const auto e = chat_error(R"(,"stop":["a",")" + std::string(1 << 20, 'x') + "\"]");
  CHECK(e.param == "stop[1]");
  CHECK(e.message.find("1048576 bytes, allowed are 1024") != std::string::npos);
}

TEST_CASE("wire_in: more choices than may run and wait together are refused, naming n", "[net]") {
  const wire_limits small{{"m"}, 0, 16, 6};
  const auto answer = [&](const std::string& body) { return parse_completions(body, small); };
  CHECK(std::holds_alternative<api_request>(answer(R"({"prompt":"x","n":6})")));
  auto e = std::get<api_error>(answer(R"({"prompt":"x","n":7})"));
  CHECK(e.status == 400);
  CHECK(e.param == "n");
  CHECK(e.message.find("'n' is 7, allowed are 1 to 6") != std::string::npos);
  e = std::get<api_error>(answer(R"({"prompt":["x","y"],"n":4})"));
  CHECK(e.param == "prompt");
  CHECK(e.message.find("2 prompts x 4 choices are 8, allowed are 6") != std::string::npos);
  runtime_config config;
  config.max_num_seqs = 3;
  config.max_num_queued_reqs = 5;
  CHECK(limits_of(config, {}).max_at_once == 8);
}

TEST_CASE("wire_in: a field of another endpoint is unknown here, whatever it holds", "[net]") {
  auto tools = parse_tokenize(
      R"({"prompt":"x","min_tokens":"many","stop":7,"temperature":[],"logit_bias":1})", limits);
  CHECK(std::holds_alternative<tokenize_request>(tools));
  auto responses = parse_responses(
      R"({"input":"x","add_generation_prompt":"yes","parse_special":3})", limits, false);
  REQUIRE(std::holds_alternative<api_request>(responses));
  CHECK(std::get<api_request>(responses).choices[0].add_generation_prompt);
  CHECK_FALSE(chat(R"(,"parse_special":"no")").choices[0].parse_special);
}

TEST_CASE("wire_in: what this release cannot do is refused unless it is the default", "[net]") {
  for (const char* members :
       {R"("truncation":"auto")", R"("tools":[{"type":"function"}])",
        R"("response_format":{"type":"json_object"})", R"("chat_template":"x")",
        R"("prompt_logprobs":1)", R"("bad_words":["x"])"}) {
    CAPTURE(members);
    CHECK(chat_error(std::string{","} + members).code == "unsupported_parameter");
  }
  CHECK_NOTHROW(chat(R"(,"truncation":"disabled","response_format":{"type":"text"},"bad_words":[],
    "tools":[{"type":"function"}],"tool_choice":"none","audio":null)"));
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
  for (const char* huge : {"18446744073709551616", "-9223372036854775809", "1e999", "-12e400"})
    CHECK(body_error(std::string(R"({"seed":)") + huge + "}")
              .message.find("byte 8: a number is too large") != std::string::npos);
  CHECK(body_error("[]").message.find("must be a JSON object, not an array") != std::string::npos);
  CHECK(body_error(R"({"messages":[{"role":"user","content":"a","role":"user"}]})").param ==
        "messages[0].role");
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
  CHECK(error_body(e) ==
        R"({"error":{"message":"The model 'gpt' does not exist.","type":"invalid_request_error",)"
        R"("param":"model","code":"model_not_found"}})");
}

TEST_CASE("wire_in: responses take string or item input, with instructions first", "[net]") {
  auto parsed = parse_responses(
      R"({"input":[{"type":"message","role":"user","content":[{"type":"input_text","text":"q"}]}],
    "instructions":"i","max_output_tokens":4,"metadata":{"k":"v"},"store":false})",
      limits, false);
  REQUIRE(std::holds_alternative<api_request>(parsed));
  const auto& r = std::get<api_request>(parsed);
  const auto& messages = std::get<std::vector<core::chat_message>>(r.choices[0].prompt);
  REQUIRE(messages.size() == 2);
  CHECK(messages[0].role == "system");
  CHECK(messages[1].content == "q");
  CHECK(r.responses.metadata == R"({"k":"v"})");
  CHECK_FALSE(r.responses.store);
  auto failing = parse_responses(
      R"({"input":[{"type":"function_call_output","call_id":"x","output":"y"}]})", limits, false);
  CHECK(std::get<api_error>(failing).status == 400);
}

TEST_CASE(
    "wire_in: lists longer than any use are refused with their limit, before their items are read",
    "[net]") {
  const wire_limits small{{"main"}, 1000, 2, 0, 8};
  const auto list = [](std::size_t n) {
    std::string all = "[1";
    while (--n > 0) all += ",1";
    return all + "]";
  };
  const auto error = [&](const std::string& body) {
    auto parsed = parse_completions(body, small);
    if (!std::holds_alternative<api_error>(parsed)) FAIL("accepted");
    return std::get<api_error>(parsed);
  };
  for (const bool nested_list : {false, true}) {
    const auto e = error(R"({"prompt":)" + (nested_list ? "[" + list(9) + "]" : list(9)) + "}");
    CHECK(e.message == "'prompt" + std::string(nested_list ? "[0]" : "") +
                           "' holds 9 tokens, this model's maximum context length is 8 tokens.");
    CHECK(e.code == "context_length_exceeded");
  }
  CHECK(std::holds_alternative<api_request>(
      parse_completions(R"({"prompt":)" + list(8) + "}", small)));
  CHECK(error(R"({"prompt":["a","b",7]})").message ==
        "3 prompts x 1 choices are 3, allowed are 2.");
  CHECK(error(R"({"prompt":"a","stop_token_ids":)" + list(1025) + "}").message ==
        "'stop_token_ids' holds 1025 tokens, allowed are 1024.");
  CHECK(error(R"({"prompt":[1,2,1000]})").message ==
        "'prompt[2]' is 1000, token ids are 0 to 999.");
  CHECK(error(R"({"prompt":"a","stop_token_ids":[1,"x"]})").param == "stop_token_ids[1]");
}

TEST_CASE("wire_in: an object has a limited number of members, and faults name their path",
          "[net]") {
  std::string members = "\"k0\":1";
  for (int i = 1; i <= 4096; ++i) members += ",\"k" + std::to_string(i) + "\":1";
  CHECK(chat_error(R"(,"metadata":{)" + members + "}").message ==
        "'metadata' has 4097 members, allowed are 4096.");
  CHECK(chat_error(R"(,"x":[1,{"a":[[true,{"b":1,"b":2}]]}])").param == "x[1].a[0][1].b");
}
