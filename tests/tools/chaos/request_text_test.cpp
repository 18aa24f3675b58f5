#include "tools/chaos/request_text.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

using namespace troupe::chaos;
using Catch::Matchers::Contains;

TEST_CASE(
    "request_text: a request is one piece over HTTP, an upgrade and a masked frame over a "
    "WebSocket") {
  const troupe::api_client::server_address at{"h", 1, "", "secret", "m"};
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
