// Whether a WebSocket client floods the server with tiny frames: each costs microseconds, whatever
// is in it, and hides the end of the stream behind it. One value per connection; pure, the time
// comes in as a parameter.
#pragma once
#include <chrono>
#include <cstddef>

namespace troupe::net {

class frame_flood {
 public:
  static constexpr std::size_t pieces_max = 4096, piece_bytes_min = 512;
  static constexpr int controls_max = 1000;
  using time_point = std::chrono::steady_clock::time_point;

  /// A piece of the message that comes in, so far of `bytes`: more than 4,096 must have 512 bytes
  /// each.
  bool on_piece(std::size_t bytes) {
    return ++pieces_ > pieces_max && bytes < pieces_ * piece_bytes_min;
  }
  void on_message() { pieces_ = 0; }
  /// True for the first ping or pong above 1,000 in a second.
  bool on_control(time_point now) {
    if (now >= second_end_) controls_ = 0, second_end_ = now + std::chrono::seconds{1};
    return ++controls_ == controls_max + 1;
  }

 private:
  std::size_t pieces_ = 0;
  int controls_ = 0;
  time_point second_end_{};
};

}  // namespace troupe::net
