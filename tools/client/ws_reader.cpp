#include "tools/client/ws_reader.hpp"

#include <stdexcept>
#include <utility>

namespace troupe::api_client {
namespace {

constexpr std::uint64_t frame_bytes_max = 1u << 30;

struct frame_head {
  bool final = false;
  std::uint8_t opcode = 0;
  std::size_t bytes = 0;  // of the head itself
  std::uint64_t payload = 0;
};

/// Section 5.2. False when more bytes are needed.
bool read_head(std::string_view input, frame_head& out) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(input[i]); };
  if (input.size() < 2) return false;
  out.final = (byte(0) & 0x80) != 0;
  out.opcode = byte(0) & 0x0f;
  out.payload = byte(1) & 0x7f;
  if ((byte(0) & 0x70) != 0)
    throw std::runtime_error("a frame with reserved bits, and no extension was agreed on");
  if ((byte(1) & 0x80) != 0) throw std::runtime_error("a masked frame from the server");
  const std::size_t length_bytes = out.payload == 126 ? 2 : out.payload == 127 ? 8 : 0;
  out.bytes = 2 + length_bytes;
  if (input.size() < out.bytes) return false;
  if (length_bytes > 0) out.payload = 0;
  for (std::size_t i = 0; i < length_bytes; ++i) out.payload = out.payload << 8 | byte(2 + i);
  if (out.payload > frame_bytes_max) throw std::runtime_error("a frame is larger than a gibibyte");
  return true;
}

/// Sections 5.4 and 5.5: what may follow what.
void check_order(const frame_head& head, bool message_open) {
  if ((head.opcode & 7) > 2) throw std::runtime_error("a frame of an unknown kind");
  if (head.opcode >= 8 && (!head.final || head.payload > 125))
    throw std::runtime_error("a control frame in fragments or of more than 125 bytes");
  if (head.opcode == 0 && !message_open)
    throw std::runtime_error("a fragment that continues no message");
  if ((head.opcode == 1 || head.opcode == 2) && message_open)
    throw std::runtime_error("a message begins inside another one");
}

}  // namespace

std::string client_frame(std::uint8_t opcode, std::string_view payload) {
  // Any mask will do here: it is there for the proxies between a browser and its server (5.3).
  constexpr char mask[4] = {'\x5a', '\x11', '\x3c', '\x77'};
  std::string frame(1, static_cast<char>(0x80 | opcode));
  const int length_bytes = payload.size() < 126 ? 0 : payload.size() < 65536 ? 2 : 8;
  frame += static_cast<char>(0x80 | (length_bytes == 0   ? payload.size()
                                     : length_bytes == 2 ? 126
                                                         : 127));
  for (int shift = 8 * (length_bytes - 1); shift >= 0; shift -= 8)
    frame += static_cast<char>(payload.size() >> shift & 0xff);
  frame.append(mask, sizeof mask);
  for (std::size_t i = 0; i < payload.size(); ++i)
    frame += static_cast<char>(payload[i] ^ mask[i & 3]);
  return frame;
}

bool ws_reader::next(std::string& input, ws_message& out) {
  for (frame_head head; read_head(input, head);) {
    check_order(head, begun_.opcode != 0);
    if (input.size() < head.bytes + head.payload) return false;
    auto payload = input.substr(head.bytes, head.payload);
    input.erase(0, head.bytes + head.payload);
    if (head.opcode >= 8) {
      out = {head.opcode, std::move(payload)};
      return true;
    }
    if (head.opcode != 0) begun_.opcode = head.opcode;
    begun_.payload += payload;
    if (!head.final) continue;
    out = std::exchange(begun_, {});
    return true;
  }
  return false;
}

}  // namespace troupe::api_client
