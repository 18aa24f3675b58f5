// One case for each template of tests/data/templates: eleven conversations, with and without a
// generation prompt, against what Python's Jinja2 rendered.
#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "gpu/model/chat_template.hpp"
#include "tests/support/source_dir.hpp"

using namespace troupe::gpu;

namespace {

std::string file_text(const std::string& path) {
  std::ifstream in(troupe::test::source_dir() + "/tests/data/" + path, std::ios::binary);
  REQUIRE(in);
  return {std::istreambuf_iterator<char>(in), {}};
}

const nlohmann::json& goldens() {
  static const auto out = nlohmann::json::parse(file_text("template_family_goldens.json"));
  return out;
}

void check_family(const std::string& name, std::size_t texts_at_least) {
  const auto subject =
      chat_template::compile(file_text("templates/" + name + ".jinja"), "<s>", "</s>");
  const std::chrono::system_clock::time_point now(
      std::chrono::seconds(goldens()["now"].get<std::int64_t>()));
  std::size_t texts = 0;
  for (const auto& golden : goldens()["templates"][name]) {
    std::vector<chat_turn> messages;
    for (const auto& turn : golden["messages"]) messages.push_back({turn[0], turn[1]});
    std::string rendered, error;
    try {
      for (const auto& span : subject.render(messages, golden["prompt"].get<bool>(), now))
        rendered += span.text;
    } catch (const template_error& thrown) {
      error = thrown.what();
    }
    INFO(golden["messages"].dump(-1, ' ', true));
    CHECK(error == golden.value("raised", ""));
    if (golden.contains("text")) CHECK(rendered == golden["text"].get<std::string>());
    texts += golden.contains("text") ? 1 : 0;
  }
  CHECK(texts >= texts_at_least);
}

}  // namespace

TEST_CASE("chat_template family: turns between two marks") {
  check_family("chatml", 22);
}
TEST_CASE("chat_template family: headers, a date from the given clock, tools") {
  check_family("dated_headers", 22);
}
TEST_CASE("chat_template family: tool answers merged into one user turn, thoughts taken apart") {
  check_family("merged_tool_answers", 22);
}
TEST_CASE("chat_template family: roles that must alternate") {
  check_family("strict_alternation", 12);
}
TEST_CASE("chat_template family: no system role") {
  check_family("no_system_role", 8);
}
TEST_CASE("chat_template family: pipes around roles, one statement a line") {
  check_family("pipes", 22);
}
TEST_CASE("chat_template family: short turns without white-space control") {
  check_family("short_turns", 22);
}
TEST_CASE("chat_template family: tools as typed signatures, macros in macros") {
  check_family("typed_tools", 22);
}
TEST_CASE("chat_template family: one namespace that remembers, thoughts dropped") {
  check_family("last_thought", 22);
}
TEST_CASE("chat_template family: call, filter, with and set blocks, recursive loops, formats") {
  check_family("blocks", 22);
}
TEST_CASE("chat_template family: every method and filter of text on hard content") {
  check_family("text_methods", 22);
}
TEST_CASE("chat_template family: every golden template has its case here") {
  CHECK(goldens()["templates"].size() == 11);
}
