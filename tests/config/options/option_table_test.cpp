#include "config/options/option_table.hpp"

#include <catch2/catch.hpp>
#include <set>

#include "config/options/option_value.hpp"

using namespace troupe;

TEST_CASE("option_table: names are kebab-case, and no name or alias stands twice", "[config]") {
  std::set<std::string> seen;
  for (const auto& spec : option_table()) {
    INFO(spec.name);
    CHECK(spec.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") ==
          std::string::npos);
    CHECK(seen.insert(spec.name).second);
    for (const auto& alias : spec.aliases) CHECK(seen.insert(alias).second);
    CHECK_FALSE(spec.meaning.empty());
    CHECK_FALSE(spec.group.empty());
    CHECK(find_option(spec.name) == &spec);
  }
  CHECK(find_option("ctx-size") == nullptr);
}

TEST_CASE("option_table: every default is inside its own range", "[config]") {
  for (const auto& spec : option_table()) {
    INFO(spec.name);
    CHECK(range_problem(spec, runtime_config{}).empty());
  }
}

TEST_CASE("option_table: no two options fill the same field", "[config]") {
  // Each option set alone changes the text of exactly one option.
  const std::vector<std::string> words{"true",        "false",    "32",   "2",    "7MiB",
                                       "keep_prefix", "priority", "park", "json", "warn",
                                       "avx2",        "f16",      "cpu"};
  for (const auto& spec : option_table()) {
    runtime_config config;
    const auto before = value_text(spec, config);
    for (const auto& word : words)
      if (assign(spec, {given_value::kind::word, word, {}}, config).empty() &&
          value_text(spec, config) != before)
        break;
    std::vector<std::string> changed;
    for (const auto& other : option_table())
      if (value_text(other, config) != value_text(other, runtime_config{}))
        changed.push_back(other.name);
    CHECK(changed == std::vector<std::string>{spec.name});
  }
}

TEST_CASE("option_table: a variable is the name in capitals behind TROUPE_", "[config]") {
  CHECK(variable_name(*find_option("max-num-seqs")) == "TROUPE_MAX_NUM_SEQS");
}
