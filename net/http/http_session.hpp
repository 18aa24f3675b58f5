// One HTTP connection: requests one after another, a read pending at all times. Everything that can
// end it ends in finish(), which cancels what runs exactly once. Lives on its socket's strand; what
// it sends goes through http_sender; hands the socket over when a request asks for a WebSocket.
#pragma once
#include <array>
#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <limits>
#include <memory>
#include <optional>
#include <string>

#include "net/api/generation_reply.hpp"
#include "net/http/http_parser.hpp"
#include "net/http/http_sender.hpp"
#include "net/server/next_timer.hpp"
#include "net/server/server_state.hpp"

namespace troupe::net {

class http_session final : public connection,
                           public sender_events,
                           public std::enable_shared_from_this<http_session> {
 public:
  http_session(std::shared_ptr<server_state>, boost::asio::ip::tcp::socket);

  /// Begins to read. The connection keeps itself alive until it ends.
  void start();
  /// Over the limit of connections: 503 and close.
  void refuse();

  boost::asio::any_io_executor executor() override { return socket_.get_executor(); }
  void on_event(std::uint64_t exchange, std::size_t choice, generation_event) override;
  void drain() override;
  void abort() override;
  std::optional<std::int64_t> idle_since() const override;
  std::uint64_t body_bytes() const override { return body_bytes_; }
  void close_if_idle() override;

  std::shared_ptr<sender_events> hold() override { return shared_from_this(); }
  void on_delta_sent(std::size_t choice) override;
  void on_reply_sent() override;
  void on_send_failed(core::end_reason why) override { finish(why); }
  void arm_timer() override;

 private:
  using error_code = boost::system::error_code;
  using time_point = std::chrono::steady_clock::time_point;
  /// idle: between requests; reading: part of one is here; replying: until its last byte has left;
  /// lingering: the last reply has left, what still comes is dropped; closed.
  enum class phase : std::uint8_t { idle, reading, replying, lingering, closed };
  static constexpr std::int64_t not_idle = std::numeric_limits<std::int64_t>::max();

  void read();
  void on_read(const error_code&, std::size_t bytes);
  void on_eof();
  void parse();
  void begin_reply();
  void refuse_unread(const api_error&);
  void handle(http_request);
  void parse_on_worker(http_request);
  void on_routed(http_request, routed);
  void run_tool(slow_reply, worker_thread&);
  void hand_over(const http_request&);
  void linger();
  void finish(core::end_reason);
  void on_timer();
  void idle_from_now() {
    idle_since_ = std::chrono::steady_clock::now().time_since_epoch().count();
  }

  std::shared_ptr<server_state> state_;
  const runtime_config& config_;
  boost::asio::ip::tcp::socket socket_;
  http_sender sender_;
  next_timer timer_;
  time_point read_deadline_ = time_point::max();

  phase phase_ = phase::idle;
  std::atomic<bool> gone_ = false;  ///< closed, for the worker threads to see
  /// Steady clock; not_idle while a whole request is being answered.
  std::atomic<std::int64_t> idle_since_{not_idle};
  std::atomic<std::uint64_t> body_bytes_{0};  ///< counted in server_state::hold_body
  std::array<char, 16 * 1024> chunk_{};
  std::string in_;  ///< received, not yet parsed
  std::optional<http_parser> parser_;
  parse_state parsed_ = parse_state::head;
  std::string request_id_;
  const char* route_ = "other";
  std::unique_ptr<generation_reply> reply_;
  std::uint64_t next_exchange_ = 1;
  std::size_t lingered_bytes_ = 0;
  std::shared_ptr<held_bytes> held_;  ///< of a text tool's answer, until it has left
  bool on_worker_ = false;            ///< a worker reads the body as JSON; nothing runs yet
  bool eof_ = false;
};

}  // namespace troupe::net
