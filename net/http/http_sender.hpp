// The sending half of one HTTP connection: heads, bodies and chunks go into a bounded queue, one
// write is in flight, and a peer that does not take it in time is given up. Lives on the
// connection's strand, which owns it; never reads and never closes the socket.
#pragma once
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "net/api/generation_reply.hpp"
#include "net/server/outbound.hpp"
#include "net/server/server_state.hpp"

namespace troupe::net {

/// The connection, as its sender sees it.
class sender_events {
 public:
  virtual ~sender_events() = default;
  /// Keeps the connection, and with it the sender, alive while a write is in flight.
  virtual std::shared_ptr<sender_events> hold() = 0;
  virtual void on_delta_sent(std::size_t choice) = 0;  ///< it has left, so the next may be made
  virtual void on_reply_sent() = 0;
  virtual void on_send_failed(core::end_reason) = 0;
  virtual void arm_timer() = 0;  ///< next_deadline() has changed
};

class http_sender final : public reply_port {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  http_sender(server_state&, boost::asio::ip::tcp::socket&, sender_events&);

  /// What follows answers `request`.
  void begin(const http_request& request, std::string request_id);
  /// What follows answers bytes that could not be read as a request; the connection closes.
  void begin_refusal();
  void set_route(const char* route) { route_ = route; }  ///< fixed name for the metrics
  void close_after_reply() { close_after_reply_ = true; }
  bool closes_after_reply() const { return close_after_reply_; }
  /// Bytes of frames that may wait; beyond them the client is a slow reader.
  void limit_queue(std::size_t bytes) { queue_.limit(bytes); }

  void send_continue();  ///< the interim reply to `Expect: 100-continue`
  void send_whole(http_reply) override;
  void send_stream_head(header_list) override;
  void send_chunk(std::string, std::size_t credit) override;
  void send_stream_end() override;

  bool empty() const { return queue_.empty(); }
  /// The nearest of the write limits and the next keep-alive comment.
  time_point next_deadline() const;
  /// The write in flight has passed one of its limits.
  bool is_late(time_point now) const;
  /// Sends the keep-alive comment that is due; `idle`: the stream waits for its next token.
  void comment_if_due(time_point now, bool idle);
  /// The connection is over: what has not left is dropped.
  void stop() { stopped_ = true; }

 private:
  header_list common_headers(const std::string& content_type) const;
  void write();
  void write_rest();
  void on_write(const boost::system::error_code&, std::size_t bytes);
  time_point comment_time() const;

  server_state& state_;
  const runtime_config& config_;
  boost::asio::ip::tcp::socket& socket_;
  sender_events& events_;

  std::string method_, request_id_;
  std::optional<std::string> page_;  ///< the allowed origin that asked
  const char* route_ = "other";
  bool http_1_0_ = false, close_after_reply_ = false;

  outbound queue_;
  bool chunked_ = false, reply_ended_ = false, stopped_ = false;
  /// Of the write in flight: to make some progress, and to leave as a whole.
  time_point progress_deadline_ = time_point::max(), whole_deadline_ = time_point::max();
  time_point comment_at_ = time_point::max();
};

}  // namespace troupe::net
