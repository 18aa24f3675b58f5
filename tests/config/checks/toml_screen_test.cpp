#include "config/checks/toml_screen.hpp"

#include <catch2/catch.hpp>

#include "config/options/config_file.hpp"

using namespace troupe;

namespace {

/// "LINE: problem" of each, then "stop" when nothing can be parsed.
std::vector<std::string> screened(const std::string& text) {
  std::vector<std::string> out;
  const auto result = screen_toml(text);
  for (const auto& one : result.problems)
    out.push_back(std::to_string(one.line) + ": " + one.problem);
  if (!result.parse) out.push_back("stop");
  return out;
}

using lines = std::vector<std::string>;

}  // namespace

TEST_CASE("toml_screen: flat settings pass untouched, with anything inside strings and comments",
          "[config]") {
  for (const std::string text :
       {"port = 1 # {é}\nhost = \"{é}\"\napi-key = ['[é]', \"\\\"é\"]\n",
        "a = \"\"\"\n[é]\n{\"\"\"\nb = 1", "a = '''\n[x]\n'''\n", "a = [\n  'x', # ]\n  'y'\n]\n",
        "", "a = 'unfinished\nb = 'x'\n"}) {
    const auto result = screen_toml(text);
    CHECK(result.problems.empty());
    CHECK(result.parse);
    CHECK(result.text == text);
  }
  CHECK(screen_toml("\xEF\xBB\xBFport = 1").text == "port = 1");
}

TEST_CASE("toml_screen: a section header is told and blanked out, so that the rest is still read",
          "[config]") {
  const auto result = screen_toml("a = 1\n  [net] # x\nb = 2\n[[more]]\n");
  CHECK(result.text == "a = 1\n           \nb = 2\n        \n");
  CHECK(screened("a = 1\n  [net] # x\nb = 2\n[[more]]\n") ==
        lines{"2: [net]: a table; the keys are flat, without sections",
              "4: [[more]]: a table; the keys are flat, without sections"});
  CHECK(screened("[\"\"\"\n\xC3\xA9 = 1") ==
        lines{"1: [\"\"\": a table; the keys are flat, without sections",
              "2: byte 0xC3 outside a string", "stop"});
  CHECK(screened("[") == lines{"1: [: a table; the keys are flat, without sections"});
}

TEST_CASE("toml_screen: what the parser does not survive never reaches it", "[config]") {
  CHECK(screened("a = 1\n\xC3\xA9 = 1") == lines{"2: byte 0xC3 outside a string", "stop"});
  CHECK(screened("a.\xC3\xA9 = 1") == lines{"1: byte 0xC3 outside a string", "stop"});
  CHECK(screened("a = {\xC3\xA9 = 1}") == lines{"1: an inline table; the keys are flat", "stop"});
  CHECK(screened(std::string("a = 1\0", 6)) == lines{"1: byte 0x00 outside a string", "stop"});
  CHECK(screened("a = '\nb\xFF") == lines{"2: byte 0xFF outside a string", "stop"});
  CHECK(parse_config_text("port = 1\n\xC3\xA9 = 2\n", "f").problems ==
        lines{"f:2: byte 0xC3 outside a string"});
}
