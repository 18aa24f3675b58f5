// WebSocket (RFC 6455) from the client's side, as bytes: frames to send, messages out of frames
// that come. Pure.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace troupe::api_client {

/// One whole masked frame.
std::string client_frame(std::uint8_t opcode, std::string_view payload);

/// A whole text or binary message, or a control frame.
struct ws_message {
  std::uint8_t opcode = 0;  ///< 1 text, 2 binary, 8 close, 9 ping, 10 pong
  std::string payload;
};

class ws_reader {
 public:
  /// Takes frames from the front of `input` until a message is whole; false when that needs more
  /// bytes. A control frame between two fragments of a message comes first. Throws
  /// std::runtime_error for what a server may not send, and for a frame of more than a gibibyte.
  bool next(std::string& input, ws_message& out);

 private:
  ws_message begun_;  // the fragments so far; opcode 0: none is open
};

}  // namespace troupe::api_client
