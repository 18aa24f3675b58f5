#include "net/json/json_numbers.hpp"

#include <catch2/catch.hpp>

using troupe::net::with_bounded_numbers;

TEST_CASE("json_numbers: only numbers that no type holds change, in as many bytes", "[net]") {
  const auto becomes = [](const std::string& json, const std::string& bounded) {
    CHECK(with_bounded_numbers(json) == bounded);
    CHECK(bounded.size() == json.size());
  };
  becomes("[18446744073709551615,-9223372036854775808,1e308,0,-0.5]",
          "[18446744073709551615,-9223372036854775808,1e308,0,-0.5]");
  becomes("[18446744073709551616]", "[184467440737095516e2]");
  becomes("[-9223372036854775809]", "[-92233720368547758e2]");
  becomes("[1e999,-1E+999 ]", "[9e307,-9e307  ]");
  becomes("[2e308]", "[9e307]");
  becomes("[1e-999]", "[1e-999]");
  becomes("[" + std::string(400, '7') + "]", "[9e307" + std::string(395, ' ') + "]");
}

TEST_CASE("json_numbers: strings and what is not JSON stay as they are", "[net]") {
  for (const char* text :
       {R"({"a":"1e999"})", R"(["\"1e999"])", R"(["\\","1e999)", "[1.e999]", "[01e999]", "[-e999]",
        "[1e999e9]", "[018446744073709551616]", "1e", "-", "\"", "\"\\", ""}) {
    CAPTURE(text);
    CHECK(with_bounded_numbers(text) == text);
  }
}
