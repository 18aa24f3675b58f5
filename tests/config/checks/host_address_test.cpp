#include "config/checks/host_address.hpp"

#include <catch2/catch.hpp>

using namespace troupe;
using Catch::Matchers::Contains;

TEST_CASE("D7 host_address: addresses and names are hosts") {
  for (const char* host : {"127.0.0.1", "0.0.0.0", "::", "::1", "fe80::1%eth0", "localhost",
                           "my-host.example.org", "host_1"})
    CHECK(host_problem(host).empty());
}

TEST_CASE("D1 host_address: a star is refused with the addresses it may stand for") {
  CHECK(host_problem("*") == "'*' is no address; 0.0.0.0 is every IPv4 address, :: every address");
}

TEST_CASE("D7 host_address: brackets are understood around an address") {
  CHECK(without_brackets("[::1]") == "::1");
  CHECK(without_brackets("::1") == "::1");
  CHECK(without_brackets("localhost") == "localhost");
  CHECK_THAT(host_problem(without_brackets("[::1")), Contains("is no host"));
  CHECK_THAT(host_problem(without_brackets("[]")), Contains("an empty address"));
}

TEST_CASE("D7 host_address: a URL, a path, a port and other signs are refused in words") {
  CHECK(host_problem("http://127.0.0.1") ==
        "'http://127.0.0.1' is a URL or a path; a host is an address or a name alone, such as "
        "127.0.0.1, ::1 or localhost, and --port is the port");
  CHECK_THAT(host_problem("127.0.0.1:80"), Contains("names a port as well"));
  CHECK_THAT(host_problem("[::1]:80"), Contains("a host is an address or a name alone"));
  CHECK_THAT(host_problem("a b"), Contains("a host is an address or a name alone"));
  CHECK_THAT(host_problem("::g"), Contains("a host is an address or a name alone"));
}

TEST_CASE("D1 host_address: what is printed in a URL can be opened as it is") {
  CHECK(host_in_url("127.0.0.1") == "127.0.0.1");
  CHECK(host_in_url("localhost") == "localhost");
  CHECK(host_in_url("0.0.0.0") == "127.0.0.1");
  CHECK(host_in_url("::") == "[::1]");
  CHECK(host_in_url("0:0:0:0:0:0:0:0") == "[::1]");
  CHECK(host_in_url("::1") == "[::1]");
  CHECK(host_in_url("fe80::1%eth0") == "[fe80::1%25eth0]");
}
