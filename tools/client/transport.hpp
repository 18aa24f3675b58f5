// How a request travels, and how a client leaves its connection.
#pragma once
#include <cstdint>

namespace troupe::api_client {

enum class transport : std::uint8_t { plain, sse, websocket };
enum class manner : std::uint8_t { fin, reset, half_close, close_frame, silence, kill_9 };

}  // namespace troupe::api_client
