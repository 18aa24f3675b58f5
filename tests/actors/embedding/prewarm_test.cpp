#include "actors/embedding/prewarm.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <thread>

#include "tests/support/temporary_file.hpp"

using namespace troupe;

namespace {

// Every character is a token; a prompt that says "refuse" or "bad" is refused, one that says "late"
// ends on another thread, one that says "hang" never does, and a stop is requested on another
// thread.
class letter_engine final : public core::generation_engine {
 public:
  std::shared_ptr<core::generation> submit(core::generation_request request,
                                           std::weak_ptr<core::generation_sink> sink) override {
    struct handle final : core::generation {
      explicit handle(letter_engine& e) : engine(e) {}
      core::request_id id() const override { return core::request_id{1}; }
      core::life_phase phase() const override { return core::life_phase::queued; }
      void delivered() override {}
      void cancel(core::end_reason, core::time_us) override { ++engine.cancels; }
      letter_engine& engine;
    };
    submitted.push_back(request);
    const auto tokens = encode(request);
    const auto text = decode(tokens);
    core::generation_end how;
    how.reason = core::end_reason::length;
    how.usage.prompt = static_cast<std::uint32_t>(tokens.size());
    how.usage.cached = cached;
    if (text == "refuse") {
      how.reason = core::end_reason::refused;
      how.message = "the queue is full";
    }
    if (text == "hang")
      elsewhere = std::jthread([this] { stop.request_stop(); });
    else if (text == "late")
      elsewhere = std::jthread([sink, how] {
        // Most likely the wait has begun by then; what must become true does not depend on it.
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        sink.lock()->end(how);
      });
    else
      sink.lock()->end(how);
    return std::make_shared<handle>(*this);
  }
  const core::model_card& card() const override { return card_; }
  core::engine_health health() const override { return {}; }
  std::vector<token_id> encode(const core::generation_request& request) const override {
    std::string text;
    if (const auto* plain = std::get_if<std::string>(&request.prompt)) text = *plain;
    if (const auto* chat = std::get_if<std::vector<core::chat_message>>(&request.prompt))
      for (const auto& m : *chat) text += m.role + ":" + m.content + ";";
    if (text == "bad") throw std::invalid_argument("the template refused it");
    return {text.begin(), text.end()};
  }
  std::string decode(const std::vector<token_id>& tokens) const override {
    return {tokens.begin(), tokens.end()};
  }
  std::string token_bytes(token_id t) const override {
    return std::string(1, static_cast<char>(t));
  }
  core::time_us now() const override { return 0; }

  std::vector<core::generation_request> submitted;
  int cancels = 0;
  std::uint32_t cached = 0;
  std::stop_source stop;
  std::jthread elsewhere;

 private:
  core::model_card card_{.name = "letters",
                         .context = 40,
                         .created = 1,
                         .vocab = 256,
                         .bos = "",
                         .eos = "",
                         .chat_template = ""};
};

prewarm_report warm(letter_engine& engine, const std::string& text, std::uint32_t pool = 100) {
  const test::temporary_file file(text);
  return prewarm(engine, file.path(), 4, pool, engine.stop.get_token());
}

}  // namespace

TEST_CASE("prewarm: prompts and chats are computed in the file's order, without an answer",
          "[actor]") {
  letter_engine engine;
  const auto report =
      warm(engine,
           "# system prompts\n\n{\"prompt\": \"0123456789\"}\r\n   \n"
           "{\"messages\":[{\"role\":\"system\",\"content\":\"be kind\"}],\"cache_salt\":\"a\"}\n"
           "{\"prompt\":\"#\",\"cache_salt\":\"\"}");
  CHECK(report.problems.empty());
  CHECK(report.warning.empty());
  CHECK(report.prompts == 3);
  CHECK(report.tokens == 8 + 12 + 0);  // whole blocks of 4
  REQUIRE(engine.submitted.size() == 3);
  CHECK(std::get<std::string>(engine.submitted[0].prompt) == "0123456789");
  CHECK(std::get<std::vector<core::chat_message>>(engine.submitted[1].prompt)[0].content ==
        "be kind");
  CHECK_FALSE(engine.submitted[1].add_generation_prompt);
  CHECK_FALSE(engine.submitted[0].cache_salt);
  CHECK(engine.submitted[1].cache_salt == "a");
  CHECK(engine.submitted[2].cache_salt == "");
  for (const auto& request : engine.submitted) {
    CHECK(request.decode.max_tokens == 0u);
    CHECK_FALSE(request.echo);
  }
}

TEST_CASE("prewarm: what was cached already is not counted as warmed", "[actor]") {
  letter_engine engine;
  engine.cached = 4;
  CHECK(warm(engine, "{\"prompt\":\"0123456789\"}").tokens == 4);
}

TEST_CASE(
    "prewarm: every problem of the file is reported with its line, before anything is computed",
    "[actor]") {
  letter_engine engine;
  const auto report = warm(engine,
                           "{\"prompt\":\"fine\"}\n"
                           "{\"prompt\":\n"
                           "[1]\n"
                           "{\"prompt\":7}\n"
                           "{}\n"
                           "{\"prompt\":\"a\",\"messages\":[]}\n"
                           "{\"messages\":[]}\n"
                           "{\"messages\":[{\"role\":\"user\"}]}\n"
                           "{\"messages\":[{\"role\":\"user\",\"content\":\"x\"},3]}\n"
                           "{\"prompt\":\"a\",\"salt\":\"b\"}\n"
                           "{\"prompt\":\"a\",\"cache_salt\":null}\n"
                           "{\"prompt\":\"a\",\"prompt\":\"b\"}\n"
                           "{\"prompt\":\"\xff\"}\n"
                           "{\"prompt\":\"bad\"}\n"
                           "{\"prompt\":\"\"}\n"
                           "{\"prompt\":\"01234567890123456789012345678901234567890\"}\n");
  CHECK(engine.submitted.empty());
  CHECK(report.prompts == 0);
  const std::vector<std::string> expected{
      "line 2: not JSON, character",
      "line 3: must be an object",
      "line 4: prompt must be a string, not number",
      "line 5: needs exactly one of prompt and messages",
      "line 6: needs exactly one of prompt and messages",
      "line 7: messages must be an array of at least one message",
      "line 8: messages[0].content is missing",
      "line 9: messages[1] must be an object, not number",
      "line 10: unknown field salt",
      "line 11: cache_salt must be a string, not null",
      "line 12: duplicate field prompt",
      "line 13: not JSON, character",
      "line 14: the template refused it",
      "line 15: the prompt has 0 tokens, must be 1 to 40",
      "line 16: the prompt has 41 tokens, must be 1 to 40"};
  REQUIRE(report.problems.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK_THAT(report.problems[i], Catch::StartsWith(expected[i]));
}

TEST_CASE("prewarm: a file that can't be read is a problem, an empty one is not", "[actor]") {
  letter_engine engine;
  const std::stop_token never;
  for (const auto* path : {"does/not/exist", "."}) {
    const auto report = prewarm(engine, path, 4, 100, never);
    REQUIRE(report.problems.size() == 1);
    CHECK_THAT(report.problems[0], Catch::StartsWith("can't be read: "));
  }
  const auto large = prewarm(engine, "/dev/zero", 4, 100, never);
  REQUIRE(large.problems.size() == 1);
  CHECK(large.problems[0] == "is larger than 67108864 bytes");
  const auto salted =
      parse_prewarm("{\"prompt\":\"a\",\"cache_salt\":\"" + std::string(257, 's') + "\"}\n");
  REQUIRE(salted.problems.size() == 1);
  CHECK(salted.problems[0] == "line 1: cache_salt has 257 bytes, the limit is 256");
  const auto report = warm(engine, "# nothing yet\n");
  CHECK(report.problems.empty());
  CHECK(report.prompts == 0);
}

TEST_CASE(
    "prewarm: prompts that together are larger than the pool cause a warning, shared beginnings "
    "counted once",
    "[actor]") {
  letter_engine engine;
  const std::string file =
      "{\"prompt\":\"aaaabbbbcccc\"}\n{\"prompt\":\"aaaabbbbdddd\"}\n{\"prompt\":\"aaaabbbb\","
      "\"cache_salt\":\"s\"}\n";
  CHECK(warm(engine, file, 6).warning.empty());
  const auto report = warm(engine, file, 5);
  CHECK_THAT(report.warning, Catch::Contains("24 tokens") && Catch::Contains("holds 20"));
  CHECK(report.problems.empty());
  CHECK(report.prompts == 3);
}

TEST_CASE("prewarm: a prompt the engine refuses stops it and is named", "[actor]") {
  letter_engine engine;
  const auto report =
      warm(engine, "{\"prompt\":\"fine\"}\n\n{\"prompt\":\"refuse\"}\n{\"prompt\":\"later\"}\n");
  CHECK(report.problems == std::vector<std::string>{"line 3: the queue is full"});
  CHECK(report.prompts == 1);
  CHECK(engine.submitted.size() == 2);
}

TEST_CASE("prewarm: a prompt that ends on another thread is waited for", "[actor]") {
  letter_engine engine;
  const auto report = warm(engine, "{\"prompt\":\"late\"}\n{\"prompt\":\"later\"}\n");
  CHECK_FALSE(report.interrupted);
  CHECK(report.prompts == 2);
  CHECK(engine.cancels == 0);
}

TEST_CASE("prewarm: a stop ends the wait and cancels the prompt", "[actor]") {
  letter_engine engine;
  if (GENERATE(false, true)) engine.stop.request_stop();  // before, or on another thread
  const auto report = warm(engine, "{\"prompt\":\"hang\"}\n{\"prompt\":\"later\"}\n");
  CHECK(report.interrupted);
  CHECK(report.prompts == 0);
  CHECK(engine.cancels == 1);
  CHECK(engine.submitted.size() == 1);
}
