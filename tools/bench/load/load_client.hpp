// One HTTP request of the load generator, from its connection to its end, on the one I/O thread.
// Lives until it has told its record; never retries and never shares a connection, so that what
// happened to it is what the record says.
#pragma once
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/client/http_request.hpp"

namespace boost::asio {
class io_context;
}

namespace troupe {

using steady = std::chrono::steady_clock;

struct load_call {
  std::string head_and_body;                  ///< bytes to send
  std::optional<std::uint32_t> cancel_after;  ///< see planned_request
  bool reset = false;
  bool slow = false;
  std::uint32_t slow_bytes_per_s = 0;
  double timeout_s = 0;
  steady::time_point arrived;  ///< latencies count from here
};

struct load_record {
  /// Empty: the whole answer came. "cancelled": by plan. Else the kind of error: connect, reset,
  /// cut, timeout, protocol, stream_error, http_STATUS.
  std::string fault;
  std::string detail;  ///< the first bytes of an error's body
  bool slow = false;
  int status = 0;
  std::uint32_t pieces = 0;  ///< events with text
  std::uint32_t prompt_tokens = 0;
  std::uint32_t completion_tokens =
      0;  ///< as the server counts them; `pieces` where it tells nothing
  steady::time_point arrived, first, last, ended;  ///< first and last piece
  std::vector<float> gaps_ms;                      ///< between pieces
  double server_tokens_per_s = 0;                  ///< by the server's timings; 0: it told none
  std::string body;                                ///< of a reply that is no stream
};

class load_endpoint;

/// Resolves the server's name. Throws std::runtime_error.
std::shared_ptr<load_endpoint> resolve(boost::asio::io_context&, const api_client::server_address&);

/// Begins the call; `done` comes once, from the I/O thread.
void begin_call(boost::asio::io_context&, std::shared_ptr<load_endpoint>, load_call,
                std::function<void(load_record)> done);

}  // namespace troupe
