#include <catch2/catch.hpp>

#include "tests/net/test_client.hpp"

using namespace troupe;
using namespace troupe::net::test;

namespace {

reply shake(std::uint16_t port, const std::string& line, const std::string& headers) {
  test_client c{port};
  c.send(line + "\r\nHost: 127.0.0.1\r\nConnection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n" +
         headers + "\r\n");
  return c.read_reply();
}

const std::string get_11 = "GET /v1/responses HTTP/1.1";
const std::string key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

}  // namespace

TEST_CASE("websocket handshake: D3 another version is 426 with ours and the error object",
          "[net]") {
  running_server s;
  for (const char* version :
       {"Sec-WebSocket-Version: 8\r\n", "Sec-WebSocket-Version: 130\r\n", ""}) {
    const auto r = shake(s.port, get_11, version + key);
    CHECK(r.status == 426);
    CHECK(r.header("Sec-WebSocket-Version") == "13");
    CHECK(r.header("Upgrade") == "websocket");
    CHECK(r.header("Content-Type") == "application/json");
    CHECK(contains(r.body, R"({"error":{"message":"Sec-WebSocket-Version is )"));
    CHECK(contains(r.body, "supported is 13."));
  }
}

TEST_CASE("websocket handshake: D3 HTTP/1.0 is refused", "[net]") {
  running_server s;
  const auto r = shake(s.port, "GET /v1/responses HTTP/1.0", "Sec-WebSocket-Version: 13\r\n" + key);
  CHECK(r.status == 400);
  CHECK(contains(r.body, "A WebSocket needs HTTP/1.1"));
}

TEST_CASE("websocket handshake: D3 a key that is none is 400 with the error object", "[net]") {
  running_server s;
  for (const char* wrong :
       {"", "Sec-WebSocket-Key: short\r\n",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==dGhlIHNhbXBsZSBub25jZQ==\r\n"}) {
    const auto r = shake(s.port, get_11, std::string{"Sec-WebSocket-Version: 13\r\n"} + wrong);
    CHECK(r.status == 400);
    CHECK(contains(r.body, "Sec-WebSocket-Key must be 16 bytes in base64."));
  }
  CHECK(shake(s.port, get_11, "Sec-WebSocket-Version: 13\r\n" + key).status == 101);
}
