#include "net/api/wire_fields.hpp"

#include <catch2/catch.hpp>
#include <utility>
#include <vector>

#include "tests/net/api/parsed.hpp"

using namespace troupe;
using namespace troupe::net;
using namespace troupe::net::test;

TEST_CASE("wire_fields: each wrong value names its field", "[net]") {
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
      {R"("allowed_token_ids":[])", "allowed_token_ids"},
      {R"("allowed_token_ids":5)", "allowed_token_ids"},
      {R"("allowed_token_ids":[1,1000])", "allowed_token_ids[1]"},
      {R"("allowed_token_ids":[-1])", "allowed_token_ids[0]"},
      {R"("allowed_token_ids":["1"])", "allowed_token_ids[0]"},
      {R"("bad_words":"no")", "bad_words"},
      {R"("bad_words":["a",1])", "bad_words[1]"},
      {R"("bad_words":[""])", "bad_words[0]"},
      {R"("bad_words":["a"," \n"])", "bad_words[1]"},
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

TEST_CASE("wire_in: allowed tokens and bad words arrive as they are, at most so many", "[net]") {
  const auto one = chat(R"(,"allowed_token_ids":[7,0,7],"bad_words":[" two","one"])").prompts[0];
  CHECK(one.allowed_token_ids == std::vector<token_id>{7, 0, 7});
  CHECK(one.bad_words == std::vector<std::string>{" two", "one"});
  const auto none = chat(R"(,"allowed_token_ids":null,"bad_words":[])").prompts[0];
  CHECK(none.allowed_token_ids.empty());
  CHECK(none.bad_words.empty());
  std::string words = R"("x")";
  for (int i = 1; i < 257; ++i) words += R"(,"x")";
  CHECK(chat_error(R"(,"bad_words":[)" + words + "]").message ==
        "'bad_words' holds 257 words, allowed are 256.");
  CHECK(chat_error(R"(,"bad_words":[")" + std::string(257, 'x') + "\"]").message ==
        "'bad_words[0]' has 257 bytes, allowed are 256.");
  CHECK(chat_error(R"(,"allowed_token_ids":[])").message ==
        "'allowed_token_ids' is empty, so no token could be drawn; leave it out to allow all.");
}

TEST_CASE("wire_fields: more choices than may run and wait together are refused, naming n",
          "[net]") {
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

TEST_CASE("wire_fields: a field of another endpoint is unknown here, whatever it holds", "[net]") {
  auto tools = parse_tokenize(
      R"({"prompt":"x","min_tokens":"many","stop":7,"temperature":[],"logit_bias":1})", limits);
  CHECK(std::holds_alternative<tokenize_request>(tools));
  auto responses =
      parse_responses(R"({"input":"x","add_generation_prompt":"yes","parse_special":3})", limits);
  REQUIRE(std::holds_alternative<api_request>(responses));
  CHECK(std::get<api_request>(responses).prompts[0].add_generation_prompt);
  CHECK_FALSE(chat(R"(,"parse_special":"no")").prompts[0].parse_special);
}

TEST_CASE("wire_fields: what this release cannot do is refused unless it is the default", "[net]") {
  for (const char* members :
       {R"("truncation":"auto")", R"("tools":[{"type":"function"}])",
        R"("response_format":{"type":"json_object"})", R"("chat_template":"x")",
        R"("prompt_logprobs":1)", R"("use_beam_search":true)"}) {
    CAPTURE(members);
    CHECK(chat_error(std::string{","} + members).code == "unsupported_parameter");
  }
  CHECK_NOTHROW(
      chat(R"(,"truncation":"disabled","response_format":{"type":"text"},"use_beam_search":false,
    "tools":[{"type":"function"}],"tool_choice":"none","audio":null)"));
  auto best = parse_completions(R"({"prompt":"x","best_of":2})", limits);
  CHECK(std::get<api_error>(best).param == "best_of");
}

TEST_CASE("wire_fields: an unknown model is 404", "[net]") {
  const auto e = chat_error(R"(,"model":"gpt")");
  CHECK(e.status == 404);
  CHECK(e.code == "model_not_found");
  CHECK(error_body(e) ==
        R"({"error":{"message":"The model 'gpt' does not exist.","type":"invalid_request_error",)"
        R"("param":"model","code":"model_not_found"}})");
}

TEST_CASE("wire_fields: F018 a tool_choice that demands a call is refused, others are as absent",
          "[net]") {
  for (const char* members :
       {R"("tools":[],"tool_choice":"auto")", R"("tools":[],"tool_choice":"none")",
        R"("tools":[],"tool_choice":null)", R"("tools":null)", R"("functions":[])",
        R"("functions":null,"function_call":"auto")", R"("function_call":"none")",
        R"("tools":[{"type":"function"}],"tool_choice":"none")", R"("grammar":"")",
        R"("json_schema":null,"guided_regex":"")"}) {
    CAPTURE(members);
    CHECK_NOTHROW(chat(std::string{","} + members));
  }
  const std::vector<std::pair<std::string, std::string>> refused{
      {R"("tools":[],"tool_choice":"required")", "tool_choice"},
      {R"("tool_choice":"required")", "tool_choice"},
      {R"("tool_choice":{"type":"function","function":{"name":"f"}})", "tool_choice"},
      {R"("tools":[{"type":"function"}],"tool_choice":"required")", "tools"},
      {R"("functions":[{"name":"f"}])", "functions"},
      {R"("function_call":{"name":"f"})", "function_call"},
      {R"("guided_json":{"type":"object"})", "guided_json"},
      {R"("guided_regex":"a+")", "guided_regex"},
      {R"("guided_choice":["a","b"])", "guided_choice"},
      {R"("guided_grammar":"root ::= a")", "guided_grammar"},
      {R"("structural_tag":"x")", "structural_tag"},
      {R"("grammar":"root ::= \"a\"")", "grammar"},
      {R"("json_schema":{"type":"object"})", "json_schema"},
      {R"("regex":"a+")", "regex"},
      {R"("ebnf":"root ::= a")", "ebnf"},
  };
  for (const auto& [members, param] : refused) {
    CAPTURE(members);
    const auto e = chat_error("," + members);
    CHECK(e.status == 400);
    CHECK(e.code == "unsupported_parameter");
    CHECK(e.param == param);
    CHECK_THAT(e.message, Catch::Contains("'" + param + "'"));
  }
  auto responses = parse_responses(R"({"input":"x","tool_choice":"required"})", limits);
  CHECK(std::get<api_error>(responses).param == "tool_choice");
}

TEST_CASE("wire_fields: D6 an empty model is the served one, as an absent one is", "[net]") {
  CHECK(chat(R"(,"model":"")").model == "main");
  CHECK(chat(R"(,"model":null)").model == "main");
}

TEST_CASE("wire_fields: D6 members of a message that are not read must still have their type",
          "[net]") {
  const auto error = [](const std::string& members) {
    CAPTURE(members);
    return body_error(R"({"messages":[{"role":"assistant","content":"x")" + members + "}]}");
  };
  CHECK(error(R"(,"tool_calls":{})").param == "messages[0].tool_calls");
  CHECK(error(R"(,"tool_calls":"f")").param == "messages[0].tool_calls");
  CHECK(error(R"(,"tool_calls":[1])").param == "messages[0].tool_calls[0]");
  CHECK(error(R"(,"tool_call_id":7)").param == "messages[0].tool_call_id");
  CHECK(error(R"(,"name":[])").param == "messages[0].name");
  for (const char* role : {"user", "assistant", "system"}) {
    const auto e =
        body_error(R"({"messages":[{"role":")" + std::string{role} + R"(","content":[]}]})");
    CHECK(e.param == "messages[0].content");
    CHECK_THAT(e.message, Catch::Contains("must not be an empty array"));
  }
  auto parsed = parse_chat(
      R"({"messages":[{"role":"assistant","content":null,"tool_calls":[{"id":"c"}],"name":"n"},
    {"role":"tool","content":"4","tool_call_id":"c"}]})",
      limits);
  CHECK(std::holds_alternative<api_request>(parsed));
}
