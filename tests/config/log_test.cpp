#include "config/log.hpp"

#include <catch2/catch.hpp>

using namespace troupe;

TEST_CASE("log: fields become JSON in the order given, strings escaped, broken UTF-8 replaced", "[config]") {
  CHECK(to_json(log_fields{{"a", std::string("x\"\n")}, {"n", std::uint64_t{7}}, {"ok", true}, {"d", 0.5}}) ==
        R"({"a":"x\"\n","n":7,"ok":true,"d":0.5})");
  CHECK(to_json(log_fields{}) == "{}");
  CHECK(to_json(log_value{std::string("\xff")}) == "\"\xEF\xBF\xBD\"");
}
