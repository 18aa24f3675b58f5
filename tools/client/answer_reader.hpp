// One answer of the API from bytes as they arrive: a body, plain or SSE, or the messages of a
// WebSocket. Owned by one client. It never reads, waits or throws: a malformed answer ends it with
// `error()` set.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tools/client/http_reader.hpp"
#include "tools/client/sse_reader.hpp"
#include "tools/client/transport.hpp"
#include "tools/client/ws_reader.hpp"

namespace troupe::api_client {

class answer_reader {
 public:
  explicit answer_reader(transport over) : over_{over} {}

  void feed(std::string_view bytes);
  /// The server closed: the end of a body that has no other mark, otherwise a cut answer.
  void end_of_stream();

  bool upgraded() const { return http_.upgraded(); }
  int status() const { return http_.status(); }
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
  void read();
  void read_messages();
  void take_body(std::string_view piece);
  void take_event(std::string_view data);
  void take_message(std::string_view data);
  void body_over();
  void fail(std::string why);

  transport over_;
  http_reader http_;
  sse_reader sse_;
  ws_reader messages_;
  std::string unread_, body_, text_, error_, ping_;
  bool head_read_ = false, over_with_it_ = false, done_ = false, ping_due_ = false;
  std::uint32_t events_ = 0;
};

}  // namespace troupe::api_client
