#include "tools/chaos/request_text.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

using namespace troupe::chaos;
using Catch::Matchers::Contains;

TEST_CASE("request_text: URLs name host and port, and bad ones say what is wrong") {
  REQUIRE(parse_url("http://localhost:8000/").port == 8000);
  REQUIRE(parse_url("http://localhost").port == 80);
  REQUIRE(parse_url("http://[::1]:9").host == "::1");
  REQUIRE_THAT(get_text(parse_url("http://[::1]:9"), "/"), Contains("Host: [::1]:9\r\n"));
  REQUIRE_THROWS_WITH(parse_url("https://a:1"), Contains("must begin with http://"));
  REQUIRE_THROWS_WITH(parse_url("http://a:0"), Contains("1 to 65535"));
  REQUIRE_THROWS_WITH(parse_url("http://a:99x"), Contains("1 to 65535"));
  REQUIRE_THROWS_WITH(parse_url("http://a/v1"), Contains("without a path"));
  REQUIRE_THROWS_WITH(parse_url("http://:80"), Contains("HOST"));
}

TEST_CASE(
    "request_text: a request is one piece over HTTP, an upgrade and a masked frame over a "
    "WebSocket") {
  const target_address at{"h", 1, "secret", "m"};
  const question asked{"hi", 5, true, 9};
  const auto http = request_pieces(at, transport::sse, asked);
  REQUIRE(http.size() == 1);
  REQUIRE_THAT(http[0], Contains("Authorization: Bearer secret\r\n"));
  const auto body = nlohmann::json::parse(http[0].substr(http[0].find("\r\n\r\n") + 4));
  REQUIRE(body["stream"] == true);
  REQUIRE(body["max_tokens"] == 5);
  REQUIRE(body["seed"] == 9);
  REQUIRE(body["model"] == "m");
  REQUIRE_THAT(http[0], Contains("Content-Length: " + std::to_string(body.dump().size()) + "\r\n"));

  const auto socket = request_pieces(at, transport::websocket, asked);
  REQUIRE(socket.size() == 2);
  REQUIRE_THAT(socket[0], Contains("Upgrade: websocket"));
  REQUIRE(static_cast<unsigned char>(socket[1][0]) == 0x81);
  REQUIRE((static_cast<unsigned char>(socket[1][1]) & 0x80) != 0);
}

TEST_CASE("request_text: frames carry their size in the shortest form and their payload masked") {
  const auto byte = [](const std::string& frame, std::size_t i) {
    return static_cast<unsigned char>(frame[i]);
  };
  const auto small = client_frame(8, "ab");
  REQUIRE(small.size() == 2 + 4 + 2);
  REQUIRE(static_cast<char>(small[6] ^ small[2]) == 'a');
  REQUIRE(static_cast<char>(small[7] ^ small[3]) == 'b');
  const auto medium = client_frame(1, std::string(300, 'x'));
  REQUIRE(byte(medium, 1) == (0x80 | 126));
  REQUIRE(byte(medium, 2) * 256 + byte(medium, 3) == 300);
  const auto large = client_frame(1, std::string(70000, 'x'));
  REQUIRE(byte(large, 1) == (0x80 | 127));
  REQUIRE(large.size() == 2 + 8 + 4 + 70000);
}
