#include "config/options/config_file.hpp"

#include <catch2/catch.hpp>
#include <filesystem>

#include "tests/support/temporary_file.hpp"

using namespace troupe;
using kind = given_value::kind;

TEST_CASE("config_file: keys come with their lines and types", "[config]") {
  const auto file = parse_config_text(
      "port = 1\nhost = 'x'\n\nqueue-timeout = 1.5\nmetrics-open = true\napi-key = ['a', 'b']\n",
      "f");
  REQUIRE(file.problems.empty());
  REQUIRE(file.settings.size() == 5);
  CHECK(file.settings[0].key == "port");
  CHECK(file.settings[0].value.type == kind::integer);
  CHECK(file.settings[1].value.text == "x");
  CHECK(file.settings[2].line == 4);
  CHECK(file.settings[2].value.type == kind::real);
  CHECK(file.settings[3].value.type == kind::boolean);
  CHECK(file.settings[4].value.items == std::vector<std::string>{"a", "b"});
}

TEST_CASE("config_file: what is not TOML is one line with file and line", "[config]") {
  for (const auto& [text, line] :
       {std::pair<std::string, int>{"port = 1\nport = 2\n", 2},  // a key twice
        {"port = \n", 1},
        {"host = 'x", 1},
        {"api-key = ['a',\n", 1},
        {"a = 1\nb = 2\n]]]\n", 3},
        {std::string("host = \"\0\"", 10), 1},
        {"host = \"\xff\xfe\"\n", 1},
        {"just words", 1},
        {"x = " + std::string(100000, '['), 1}}) {
    const auto file = parse_config_text(text, "f.toml");
    INFO(text.substr(0, 40));
    CHECK(file.settings.empty());
    REQUIRE(file.problems.size() == 1);
    CHECK(file.problems[0].rfind("f.toml:" + std::to_string(line) + ": ", 0) == 0);
    CHECK(file.problems[0].find('\n') == std::string::npos);
    CHECK(file.problems[0].size() < 300);
  }
}

TEST_CASE("config_file: any cut of a file is either read or one problem", "[config]") {
  const std::string whole =
      "port = 8000\nhost = \"127.0.0.1\"\napi-key = [\"a\", \"b\"]\nqueue-timeout = 1e2\n";
  for (std::size_t size = 0; size <= whole.size(); ++size)
    CHECK(parse_config_text(whole.substr(0, size), "f").problems.size() <= 1);
}

TEST_CASE("config_file: a missing file, a folder and a huge file are one line each", "[config]") {
  CHECK(read_config_file("/nowhere/troupe.toml").problems ==
        std::vector<std::string>{"--config: /nowhere/troupe.toml: No such file or directory"});
  const auto folder = std::filesystem::temp_directory_path().string();
  CHECK(read_config_file(folder).problems ==
        std::vector<std::string>{"--config: " + folder + ": is a directory"});
  const test::temporary_file huge("# " + std::string(1 << 20, 'x'), "huge.toml");
  CHECK(read_config_file(huge.path()).problems ==
        std::vector<std::string>{"--config: " + huge.path() + ": is larger than 1 MiB"});
  const test::temporary_file largest("#" + std::string((1 << 20) - 1, 'x'), "largest.toml");
  CHECK(read_config_file(largest.path()).problems.empty());
}
