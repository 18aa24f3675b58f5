#include "config/options/option_value.hpp"

#include <catch2/catch.hpp>
#include <limits>

using namespace troupe;
using kind = given_value::kind;

namespace {

std::string refused(const char* option, const given_value& value) {
  runtime_config config;
  const auto& spec = *find_option(option);
  const auto before = value_text(spec, config);
  const auto problem = assign(spec, value, config);
  CHECK(value_text(spec, config) == before);  // a refused value changes nothing
  return problem;
}

std::string set(const char* option, const given_value& value) {
  runtime_config config;
  const auto& spec = *find_option(option);
  REQUIRE(assign(spec, value, config).empty());
  return value_text(spec, config);
}

given_value word(const char* text) {
  return {kind::word, text, {}};
}

}  // namespace

TEST_CASE("option_value: what is no whole number, or outside the range, is refused with the range",
          "[config]") {
  for (const char* text : {"", "abc", "1.5", "1e3", "nan", "0x10", " 4", "4 ", "--json", "٣"})
    CHECK(refused("max-num-seqs", word(text)) ==
          std::string("'") + text + "' is not a whole number, 1..4096");
  for (const char* text :
       {"0", "-1", "4097", "99999999999999999999999", "-99999999999999999999999"})
    CHECK(refused("max-num-seqs", word(text)) == std::string(text) + " is outside 1..4096");
  CHECK(refused("port", word("99999")) == "99999 is outside 0..65535");
  CHECK(refused("block-size", word("17")) == "'17' is not 16 or 32");
  CHECK(refused("block-size", word("-16")) == "'-16' is not 16 or 32");
  CHECK(set("max-num-seqs", word("4096")) == "4096");
  CHECK(set("port", word("65535")) == "65535");
  CHECK(set("plant-leak", word("4294967295")) == "4294967295");
}

TEST_CASE("option_value: types of the KV cache are those of the list, for both sides and each",
          "[config]") {
  for (const char* option : {"kv-cache-dtype", "kv-cache-dtype-k", "kv-cache-dtype-v"}) {
    for (const char* type : {"auto", "f16", "bf16", "int8", "fp8_e4m3", "fp8_e5m2", "int4"})
      CHECK(set(option, word(type)) == std::string("\"") + type + "\"");
    for (const char* type : {"", "q8_0", "fp8", "INT8", "f32"})
      CHECK(refused(option, word(type)) ==
            std::string("'") + type + "' is not auto, f16, bf16, int8, fp8_e4m3, fp8_e5m2 or int4");
  }
}

TEST_CASE("option_value: the file's type must be the option's", "[config]") {
  CHECK(refused("port", {kind::string, "8000", {}}) ==
        "the string \"8000\" is not a whole number, 0..65535");
  CHECK(refused("port", {kind::real, "8000.5", {}}) == "8000.5 is not a whole number, 0..65535");
  CHECK(refused("port", {kind::boolean, "true", {}}) == "true is not a whole number, 0..65535");
  CHECK(refused("host", {kind::integer, "1", {}}) == "1 is not a string");
  CHECK(refused("metrics-open", {kind::string, "true", {}}) ==
        "the string \"true\" is not true or false");
  CHECK(refused("metrics-open", {kind::integer, "1", {}}) == "1 is not true or false");
  CHECK(refused("queue-timeout", {kind::string, "60", {}}) ==
        "the string \"60\" is not a number, 0..1000000");
  CHECK(refused("api-key", {kind::other, "a table", {}}) == "a table is not a list of strings");
  CHECK(refused("kv-cache-memory", {kind::real, "1e9", {}}).find("is not a size") !=
        std::string::npos);
  CHECK(set("queue-timeout", {kind::integer, "5", {}}) == "5");
  CHECK(set("host", {kind::string, "::1", {}}) == "\"::1\"");
}

TEST_CASE("option_value: times are finite decimal numbers within their range", "[config]") {
  for (const char* text : {"nan", "-nan", "abc", "", "1s", "0x1p4"})
    CHECK(refused("queue-timeout", word(text)).find("is not a number, 0..1000000") !=
          std::string::npos);
  for (const char* text : {"-1", "1e400", "inf", "-inf", "1000000.5"})
    CHECK(refused("queue-timeout", word(text)).find("is outside 0..1000000") != std::string::npos);
  CHECK(refused("queue-timeout", {kind::real, "nan", {}}).find("is not a number") !=
        std::string::npos);
  CHECK(set("kv-transfer-timeout", word("0.01")) == "0.01");
  CHECK(set("queue-timeout", word("+1.5")) == "1.5");
}

TEST_CASE("option_value: sizes take units, and a plain number is bytes, or GiB for the host tier",
          "[config]") {
  CHECK(set("kv-cache-memory", word("512MiB")) == "\"512MiB\"");
  CHECK(set("kv-cache-memory", word("1048577")) == "\"1048577B\"");
  CHECK(set("max-body-bytes", {kind::integer, "2048", {}}) == "\"2KiB\"");
  CHECK(set("kv-offloading-size", word("4")) == "\"4GiB\"");
  CHECK(set("kv-offloading-size", {kind::real, "0.5", {}}) == "\"512MiB\"");
  CHECK(set("kv-offloading-size", {kind::string, "100MiB", {}}) == "\"100MiB\"");
  CHECK(set("kv-offloading-size", {kind::integer, "0", {}}) == "0");
  CHECK(refused("kv-cache-memory", word("lots")) ==
        "'lots' is not a size such as 512MiB or 1.5GiB, 1MiB..16TiB");
  CHECK(refused("kv-cache-memory", word("1KiB")) == "1KiB is outside 1MiB..16TiB");
  CHECK(refused("kv-cache-memory", word("17TiB")) == "17TiB is outside 1MiB..16TiB");
  CHECK(refused("kv-cache-memory", word("-5")) == "-5 is outside 1MiB..16TiB");
  CHECK(refused("kv-cache-memory", word("0x10000000")).find("is not a size") != std::string::npos);
  CHECK(refused("kv-offloading-size", word("nan")).find("is not a size") != std::string::npos);
}

TEST_CASE("option_value: flags and lists read the words of the environment", "[config]") {
  for (const char* text : {"1", "true", "ON", "yes"})
    CHECK(set("metrics-open", word(text)) == "true");
  for (const char* text : {"0", "False", "off", "no"})
    CHECK(set("enable-prefix-caching", word(text)) == "false");
  CHECK(refused("metrics-open", word("")) == "'' is not true or false");
  CHECK(set("allow-half-close", word("1")) == "true");
  runtime_config config;
  REQUIRE(assign(*find_option("allow-half-close"), word("1"), config).empty());
  CHECK_FALSE(config.half_close_is_gone);
  REQUIRE(assign(*find_option("api-key"), word("a,b"), config).empty());
  CHECK(config.api_keys == std::vector<std::string>{"a", "b"});
  REQUIRE(assign(*find_option("api-key"), {kind::list, "", {"a,b"}}, config).empty());
  CHECK(config.api_keys == std::vector<std::string>{"a,b"});
  REQUIRE(assign(*find_option("allowed-origins"), {kind::list, "", {"x,y", "z"}}, config).empty());
  CHECK(config.allowed_origins == std::vector<std::string>{"x", "y", "z"});
}

TEST_CASE("option_value: a field set by hand is held to the same range, NaN too", "[config]") {
  runtime_config config;
  config.queue_timeout_s = std::numeric_limits<double>::quiet_NaN();
  config.kv_cache_memory = 5;
  config.preemption = "swap";
  config.num_kv_blocks = 0;
  CHECK(range_problem(*find_option("queue-timeout"), config) == "nan is outside 0..1000000");
  CHECK(range_problem(*find_option("kv-cache-memory"), config) == "5B is outside 1MiB..16TiB");
  CHECK(range_problem(*find_option("preemption"), config) ==
        "'swap' is not auto, park or recompute");
  CHECK(range_problem(*find_option("num-kv-blocks"), config) == "0 is outside 1..268435456");
}

TEST_CASE("option_value: texts are quoted so that TOML reads them back, secrets are not shown",
          "[config]") {
  runtime_config config;
  config.host = "a\"b\\c\n";
  config.api_keys = {"secret-1", "secret-2"};
  CHECK(value_text(*find_option("host"), config) == "\"a\\\"b\\\\c\\u000A\"");
  CHECK(value_text(*find_option("api-key"), config) == "[\"***\", \"***\"]");
}
