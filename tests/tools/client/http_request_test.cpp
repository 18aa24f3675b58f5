#include "tools/client/http_request.hpp"

#include <catch2/catch.hpp>

using namespace troupe::api_client;
using Catch::Matchers::Contains;

TEST_CASE("http_request: URLs name host, port and base, and bad ones say what is wrong") {
  REQUIRE(parse_url("http://localhost:8000/").port == 8000);
  REQUIRE(parse_url("http://localhost").port == 80);
  REQUIRE(parse_url("http://[::1]:9").host == "::1");
  REQUIRE(parse_url("http://a").base == "");
  REQUIRE(parse_url("http://a/v1/").base == "");
  REQUIRE(parse_url("http://a/behind/proxy/v1").base == "/behind/proxy");
  for (const auto& [url, why] :
       {std::pair{"https://a:1", "only http"}, std::pair{"a:1", "only http"},
        std::pair{"http://a:0", "1 to 65535"}, std::pair{"http://a:70000", "1 to 65535"},
        std::pair{"http://a:99x", "1 to 65535"}, std::pair{"http://:80", "no host"},
        std::pair{"http://a/b c", "URL 'http://a/b c'"}, std::pair{"http://u@a", "a user"},
        std::pair{"http://a/?x=1", "a query"}})
    REQUIRE_THROWS_WITH(parse_url(url), Contains(why) && Contains("http://HOST[:PORT][/BASE]"));
}

TEST_CASE("http_request: a request names its host, its path behind the base, and its key") {
  auto at = parse_url("http://[::1]:9/base");
  at.api_key = "secret";
  REQUIRE(get_text(at, "/metrics") ==
          "GET /base/metrics HTTP/1.1\r\nHost: [::1]:9\r\nAuthorization: Bearer secret\r\n\r\n");
  const auto post = post_text(parse_url("http://h"), "/v1/x", "{}", "Connection: close\r\n");
  REQUIRE(post ==
          "POST /v1/x HTTP/1.1\r\nHost: h:80\r\nConnection: close\r\n"
          "Content-Type: application/json\r\nContent-Length: 2\r\n\r\n{}");
}
