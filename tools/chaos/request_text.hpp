// What a client asks and the bytes it sends for it, so that it can stop after any of them. Pure
// functions; nothing here owns or sends anything.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/chaos/kill_matrix.hpp"
#include "tools/client/http_request.hpp"

namespace troupe::chaos {

using api_client::server_address;

/// What is asked. Equal questions have equal answers, whoever else asks.
struct question {
  std::string prompt;
  std::uint32_t tokens = 8;
  bool sampled = false;  // temperature 0.8 with `seed`; otherwise greedy
  std::uint64_t seed = 0;
  bool operator==(const question&) const = default;
};

/// In the order of sending. A WebSocket's second piece follows when the first has been answered.
std::vector<std::string> request_pieces(const server_address&, transport, const question&);

}  // namespace troupe::chaos
