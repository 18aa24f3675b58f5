#include "net/api/api_table.hpp"

#include <catch2/catch.hpp>
#include <map>

using namespace troupe;
using namespace troupe::net;

TEST_CASE(
    "api_table: a field is listed once for each endpoint and has a level that fits its default",
    "[net]") {
  std::map<std::string, unsigned> seen;
  for (const auto& field : api_fields()) {
    CAPTURE(field.name);
    CHECK((seen[field.name] & field.endpoints) == 0);
    seen[field.name] |= field.endpoints;
  }
  CHECK(seen["model"] == 31u);
}
