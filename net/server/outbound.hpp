// What waits to be written on one connection: bounded, coalescing, pure. A frame may carry a
// credit: the choice whose next delta the engine may make once the frame has left. Owned by one
// connection and used on its strand only.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::net {

enum class push_result : std::uint8_t { ok, backpressure, dropped };

class outbound {
 public:
  /// Frames beyond `bytes_max` are dropped, but an empty queue takes one of any size. From half of
  /// it on, push() returns backpressure.
  explicit outbound(std::size_t bytes_max) : bytes_max_{bytes_max} {}

  void limit(std::size_t bytes_max) { bytes_max_ = bytes_max; }

  static constexpr std::size_t no_credit = static_cast<std::size_t>(-1);
  push_result push(const std::string& frame, std::size_t credit = no_credit);
  /// For heads and whole replies, whose size is limited elsewhere.
  void push_always(const std::string& frame) { waiting_ += frame; }

  /// Everything that waits becomes the one write in flight. False when a write is in flight or
  /// nothing waits.
  bool begin_write();
  /// The part of the write in flight that has not left yet.
  std::string_view writing() const { return std::string_view{writing_}.substr(written_); }
  /// `bytes` more have left. True when the write is complete: then credits() are due.
  bool advance(std::size_t bytes);
  /// Credits of the write just completed; moves them out.
  std::vector<std::size_t> credits();

  bool writing_now() const { return !writing_.empty(); }
  bool empty() const { return waiting_.empty() && writing_.empty(); }
  std::size_t bytes() const { return waiting_.size() + writing_.size() - written_; }

 private:
  static constexpr std::size_t kept_capacity = 256 * 1024;
  std::size_t bytes_max_;
  std::string waiting_, writing_;
  std::size_t written_ = 0;
  std::vector<std::size_t> waiting_credits_, writing_credits_;
};

}  // namespace troupe::net
