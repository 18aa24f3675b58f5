#include "net/server/outbound.hpp"

#include <catch2/catch.hpp>
#include <vector>

using namespace troupe;
using namespace troupe::net;

TEST_CASE("outbound: frames coalesce into one write and give their credits back when it has left",
          "[net]") {
  outbound out{100};
  CHECK(out.push("ab", 1) == push_result::ok);
  REQUIRE(out.begin_write());
  CHECK(out.push("cd", 2) == push_result::ok);
  CHECK(out.push("ef") == push_result::ok);
  CHECK_FALSE(out.begin_write());
  CHECK_FALSE(out.advance(1));
  CHECK(out.writing() == "b");
  CHECK(out.advance(1));
  CHECK(out.credits() == std::vector<std::size_t>{1});
  REQUIRE(out.begin_write());
  CHECK(out.writing() == "cdef");
  CHECK(out.advance(4));
  CHECK(out.credits() == std::vector<std::size_t>{2});
  CHECK(out.empty());
}

TEST_CASE("outbound: half full is backpressure, full is dropped, an empty queue takes any frame",
          "[net]") {
  outbound out{10};
  CHECK(out.push("1234") == push_result::ok);
  CHECK(out.push("56") == push_result::backpressure);
  CHECK(out.push("7890x") == push_result::dropped);
  CHECK(out.bytes() == 6);
  outbound large{2};
  CHECK(large.push("much more") == push_result::backpressure);
}
