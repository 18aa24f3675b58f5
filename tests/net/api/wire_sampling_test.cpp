#include <catch2/catch.hpp>

#include "net/api/wire_in.hpp"
#include "tests/net/api/parsed.hpp"

using namespace troupe;
using namespace troupe::net;
using namespace troupe::net::test;

TEST_CASE("wire_sampling: penalties, biases and the stops of our own arrive where they belong",
          "[net]") {
  const auto one = chat(R"(,"repetition_penalty":1.5,"presence_penalty":-2,"frequency_penalty":0.25,
    "logit_bias":{"20":-100,"3":0.5},"stop_boundary":"word","stop_confidence":{"mass":0.5,"steps":2.0},
    "stop_repetition":{"ngram":64,"times":2},"cache_salt":"","on_disconnect":"keep_prefix")")
                       .prompts[0];
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
          .prompts[0];
  CHECK(plain.boundary == stop_boundary::none);
  CHECK_FALSE(plain.decode.confidence);
  CHECK_FALSE(plain.repetition);
  CHECK_FALSE(plain.cache_salt);
  CHECK_FALSE(plain.decode.sampling.needs_history());
  CHECK(plain.disconnect == on_disconnect::stop);
  CHECK_FALSE(chat("").prompts[0].disconnect);
  CHECK(chat(R"(,"stop_boundary":"line")").prompts[0].boundary == stop_boundary::line);
  CHECK(chat(R"(,"stop_confidence":{})").prompts[0].decode.confidence == confidence_stop{});
  auto parsed = parse_responses(R"({"input":"x","stop_repetition":{"ngram":1,"times":2}})", limits);
  CHECK(std::get<api_request>(parsed).prompts[0].repetition == repetition_stop{1, 2});
  CHECK(completions(R"({"prompt":"x","frequency_penalty":1})")
            .prompts[0]
            .decode.sampling.frequency_penalty == 1.0f);
}

TEST_CASE("wire_sampling: a mistyped word names the one that was meant", "[net]") {
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

TEST_CASE("wire_sampling: the keys of logit_bias are token ids, at most 1,024 of them", "[net]") {
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

TEST_CASE("wire_sampling: cache_salt takes 256 bytes", "[net]") {
  const auto salt = [](std::size_t n) { return R"(,"cache_salt":")" + std::string(n, 's') + "\""; };
  CHECK(chat(salt(256)).prompts[0].cache_salt->size() == 256);
  const auto e = chat_error(salt(257));
  CHECK(e.param == "cache_salt");
  CHECK(e.message.find("257") != std::string::npos);
}

TEST_CASE(
    "wire_sampling: C067 empty, too many, too long and wrong stops are refused, null and [] are "
    "none",
    "[net]") {
  for (const char* stop : {R"("")", R"([""])", R"(["","X"])", R"(["X",""])", "7", "[7]",
                           R"(["a",null])", R"({"a":1})", "true"}) {
    CAPTURE(stop);
    const auto e = chat_error(std::string{R"(,"stop":)"} + stop);
    CHECK(e.status == 400);
    REQUIRE(e.param);
    CHECK(e.param->starts_with("stop"));
  }
  CHECK(chat(R"(,"stop":null)").prompts[0].stop.empty());
  CHECK(chat(R"(,"stop":[])").prompts[0].stop.empty());
  CHECK(chat(R"(,"stop":[" "])").prompts[0].stop == std::vector<std::string>{" "});
  for (const int count : {5, 1000}) {
    std::string list;
    for (int i = 0; i < count; ++i) list += (i > 0 ? ",\"" : "\"") + std::to_string(i) + "\"";
    const auto e = chat_error(R"(,"stop":[)" + list + "]");
    CHECK(e.param == "stop");
    CHECK(e.message.find(std::to_string(count)) != std::string::npos);
    CHECK(e.message.find("allowed are 4") != std::string::npos);
  }
  CHECK(chat(R"(,"stop":")" + std::string(1024, 'x') + "\"").prompts[0].stop.size() == 1);
  const auto e = chat_error(R"(,"stop":["a",")" + std::string(1 << 20, 'x') + "\"]");
  CHECK(e.param == "stop[1]");
  CHECK(e.message.find("1048576 bytes, allowed are 1024") != std::string::npos);
}

TEST_CASE(
    "wire_sampling: lists longer than any use are refused with their limit, before their items are "
    "read",
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
