// Reads one answer from bytes as they arrive: an HTTP body (plain or SSE, any framing) or the
// frames of a WebSocket. Owned by one client. It never reads, waits or throws: a malformed answer
// ends it with `error()` set.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tools/chaos/kill_matrix.hpp"

namespace troupe::chaos {

class answer_reader {
 public:
  explicit answer_reader(transport over) : over_{over} {}

  void feed(std::string_view bytes);
  /// The server closed: the end of a body that has no other mark, otherwise a cut answer.
  void end_of_stream();

  bool upgraded() const { return upgraded_; }
  int status() const { return status_; }
  /// Events seen: SSE data lines with [DONE], WebSocket messages; for a plain answer its head
  /// counts as one.
  std::uint32_t events() const { return events_; }
  const std::string& text() const { return text_; }
  /// The answer is whole, or nothing more can come.
  bool over() const { return over_with_it_; }
  bool complete() const { return over_with_it_ && error_.empty(); }
  const std::string& error() const { return error_; }
  /// The body of a plain reply as it came.
  const std::string& body() const { return body_; }
  /// Payload of a ping that waits for its pong; true once for each.
  bool take_ping(std::string& payload);

 private:
  void read_head();
  void read_body();
  bool read_chunk();
  void read_frames();
  void take_body(std::string_view piece);
  void take_event(std::string_view data);
  void take_message(std::string_view data);
  void body_over();
  void fail(std::string why);

  transport over_;
  std::string unread_, body_, text_, error_, message_, ping_;
  bool head_read_ = false, upgraded_ = false, chunked_ = false, over_with_it_ = false,
       done_ = false, ping_due_ = false;
  int status_ = 0;
  std::uint32_t events_ = 0;
  std::uint64_t length_left_ = 0;
  bool has_length_ = false;
};

}  // namespace troupe::chaos
