#include "tools/client/ws_reader.hpp"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <stdexcept>
#include <vector>

using namespace troupe::api_client;
using Catch::Matchers::Contains;

namespace {

/// As a server sends it: not masked.
std::string server_frame(unsigned char first, std::string_view payload) {
  std::string frame(1, static_cast<char>(first));
  if (payload.size() < 126) {
    frame += static_cast<char>(payload.size());
  } else {
    const int bytes = payload.size() < 65536 ? 2 : 8;
    frame += static_cast<char>(bytes == 2 ? 126 : 127);
    for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8)
      frame += static_cast<char>(payload.size() >> shift & 0xff);
  }
  return frame.append(payload);
}

/// "opcode:payload" of each message.
std::vector<std::string> messages(const std::string& bytes, std::size_t piece) {
  ws_reader reader;
  std::string unread;
  std::vector<std::string> all;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    unread += bytes.substr(at, piece);
    for (ws_message one; reader.next(unread, one);)
      all.push_back(fmt::format("{}:{}", one.opcode, one.payload));
  }
  return all;
}

}  // namespace

TEST_CASE("ws_reader: control frames between the fragments of a message come before it") {
  const auto bytes = server_frame(0x01, "a") + server_frame(0x89, "ping") +
                     server_frame(0x00, "b") + server_frame(0x8a, "") + server_frame(0x80, "c") +
                     server_frame(0x82, "binary") + server_frame(0x88, "\x03\xe8");
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece)
    REQUIRE(messages(bytes, piece) ==
            std::vector<std::string>{"9:ping", "10:", "1:abc", "2:binary", "8:\x03\xe8"});
}

TEST_CASE("ws_reader: sizes of every form") {
  for (const std::size_t size : {0, 125, 126, 65535, 65536, 70000}) {
    const std::string payload(size, 'x');
    const auto bytes = server_frame(0x81, payload);
    REQUIRE(messages(bytes, bytes.size()) == std::vector<std::string>{"1:" + payload});
    REQUIRE(messages(bytes.substr(0, bytes.size() - 1), bytes.size()).empty());
  }
}

TEST_CASE("ws_reader: what a server may not send is refused with a reason") {
  const auto refused = [](const std::string& bytes, const char* why) {
    REQUIRE_THROWS_WITH(messages(bytes, bytes.size()), Contains(why));
  };
  refused(client_frame(1, "x"), "masked");
  refused(server_frame(0xc1, "x"), "reserved bits");
  refused(server_frame(0x83, "x"), "unknown kind");
  refused(server_frame(0x8b, "x"), "unknown kind");
  refused(server_frame(0x09, "x"), "control frame");
  refused(server_frame(0x89, std::string(126, 'x')), "control frame");
  refused(server_frame(0x80, "x"), "continues no message");
  refused(server_frame(0x01, "x") + server_frame(0x81, "y"), "inside another");
  refused("\x81\x7f\x7f" + std::string(7, '\xff'), "gibibyte");
}

TEST_CASE("client_frame: frames carry their size in the shortest form and their payload masked") {
  const auto byte = [](const std::string& frame, std::size_t i) {
    return static_cast<unsigned char>(frame[i]);
  };
  const auto small = client_frame(8, "ab");
  REQUIRE(small.size() == 2 + 4 + 2);
  REQUIRE(byte(small, 0) == 0x88);
  REQUIRE(byte(small, 1) == (0x80 | 2));
  REQUIRE(static_cast<char>(small[6] ^ small[2]) == 'a');
  REQUIRE(static_cast<char>(small[7] ^ small[3]) == 'b');
  const auto medium = client_frame(1, std::string(300, 'x'));
  REQUIRE(byte(medium, 1) == (0x80 | 126));
  REQUIRE(byte(medium, 2) * 256 + byte(medium, 3) == 300);
  REQUIRE(medium.size() == 2 + 2 + 4 + 300);
  const auto large = client_frame(1, std::string(70000, 'x'));
  REQUIRE(byte(large, 1) == (0x80 | 127));
  REQUIRE(large.size() == 2 + 8 + 4 + 70000);
}
