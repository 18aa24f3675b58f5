#include "config/runtime_config.hpp"

#include <catch2/catch.hpp>

using namespace troupe;

TEST_CASE("runtime_config: the defaults are sound once a model is named", "[config]") {
  runtime_config config;
  REQUIRE(config.problems().size() == 1);
  config.model = "m.gguf";
  CHECK(config.problems().empty());
}

TEST_CASE("runtime_config: sizes are read with and without units", "[config]") {
  CHECK(parse_size("512") == 512u);
  CHECK(parse_size("64KiB") == 65536u);
  CHECK(parse_size("1.5G") == 1610612736u);
  CHECK(parse_size("2 mib") == 2097152u);
  CHECK_FALSE(parse_size(""));
  CHECK_FALSE(parse_size("-1"));
  CHECK_FALSE(parse_size("12parsecs"));
  CHECK_FALSE(parse_size("1e30GiB"));
  CHECK_FALSE(parse_size("nan"));
}

TEST_CASE("runtime_config: sizes are written in the largest unit that is not below one",
          "[config]") {
  CHECK(format_size(0) == "0 bytes");
  CHECK(format_size(1536) == "1.5 KiB");
  CHECK(format_size(1ull << 30) == "1 GiB");
}

TEST_CASE("runtime_config: a value at a limit is accepted and one beyond it is not", "[config]") {
  runtime_config config;
  config.model = "m.gguf";
  config.max_num_seqs = 4096;
  CHECK(config.problems().empty());
  config.max_num_seqs = 4097;
  REQUIRE(config.problems().size() == 1);
  CHECK(config.problems()[0] == "--max-num-seqs: 4097 is outside 1..4096");
  config.max_num_seqs = 1;
  config.api_keys = {""};
  CHECK(config.problems().size() == 1);
}
