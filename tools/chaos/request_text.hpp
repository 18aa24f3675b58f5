// What a client sends, as bytes: HTTP/1.1 requests and WebSocket frames, written by hand so that a
// client can stop after any byte of them. Pure functions; nothing here owns or sends anything.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tools/chaos/kill_matrix.hpp"

namespace troupe::chaos {

/// Where the server is and how it wants to be asked.
struct target_address {
  std::string host;
  std::uint16_t port = 0;
  std::string api_key;  // none when empty
  std::string model;    // not sent when empty
};

/// "http://HOST[:PORT]"; throws std::invalid_argument with one clear sentence.
target_address parse_url(const std::string& url);

/// What is asked. Equal questions have equal answers, whoever else asks.
struct question {
  std::string prompt;
  std::uint32_t tokens = 8;
  bool sampled = false;  // temperature 0.8 with `seed`; otherwise greedy
  std::uint64_t seed = 0;
  bool operator==(const question&) const = default;
};

std::string get_text(const target_address&, std::string_view path);
std::string post_text(const target_address&, std::string_view path, std::string_view body);

/// In the order of sending. A WebSocket's second piece follows when the first has been answered.
std::vector<std::string> request_pieces(const target_address&, transport, const question&);

/// One masked client frame.
std::string client_frame(std::uint8_t opcode, std::string_view payload);

}  // namespace troupe::chaos
