// One HTTP connection: requests one after another, a read pending at all times, one write in
// flight. Everything that can end it ends in finish(), which cancels what runs exactly once. Lives
// on its socket's strand; hands the socket over when a request asks for a WebSocket.
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
#include "net/server/next_timer.hpp"
#include "net/server/outbound.hpp"
#include "net/server/server_state.hpp"

namespace troupe::net {

class http_session final : public connection,
                           public reply_port,
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
  std::optional<std::int64_t> idle_since() const override {
    const std::int64_t since = idle_since_;
    return since == never ? std::nullopt : std::optional{since};
  }
  std::uint64_t body_bytes() const override { return body_bytes_; }
  void give_way() override;

  void send_whole(http_reply) override;
  void send_stream_head(header_list) override;
  void send_chunk(std::string, std::size_t credit) override;
  void send_stream_end() override;

 private:
  using error_code = boost::system::error_code;
  using time_point = std::chrono::steady_clock::time_point;
  /// idle: between requests; reading: part of one is here; replying: until its last byte has left;
  /// lingering: the last reply has left, what still comes is dropped; closed.
  enum class phase : std::uint8_t { idle, reading, replying, lingering, closed };
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

  void read();
  void on_read(const error_code&, std::size_t bytes);
  void on_eof();
  void parse();
  void handle(http_request);
  void read_aside(http_request);
  void on_routed(http_request, routed);
  void answer_aside(slow_reply, worker_thread&);
  void hand_over();
  void write();
  void write_rest();
  void on_write(const error_code&, std::size_t bytes);
  void reply_complete();
  void linger();
  void finish(core::end_reason);
  void close_socket();
  void arm_timer();
  void on_timer();
  header_list common_headers(const std::string& content_type);
  void idle_from_now() {
    idle_since_ = std::chrono::steady_clock::now().time_since_epoch().count();
  }

  std::shared_ptr<server_state> state_;
  const runtime_config& config_;
  boost::asio::ip::tcp::socket socket_;
  next_timer timer_;
  time_point read_deadline_ = time_point::max(), comment_at_ = time_point::max();
  time_point write_deadline_ = time_point::max(),
             drain_deadline_ = time_point::max();  // no progress; in all

  phase phase_ = phase::idle;
  std::atomic<bool> gone_ = false;  // closed, as the threads aside may see it
  std::atomic<std::int64_t> idle_since_{
      never};  // steady clock; never: at work, for a request that is whole
  std::atomic<std::uint64_t> body_bytes_{0};
  std::array<char, 16 * 1024> chunk_{};
  std::string in_;  ///< received, not yet parsed
  std::optional<http_parser> parser_;
  parse_state parsed_ = parse_state::head;
  http_request request_;  ///< the one being answered, without its body
  std::string request_id_;
  const char* route_ = "other";
  outbound out_;
  std::unique_ptr<generation_reply> reply_;
  std::uint64_t next_exchange_ = 1;
  std::size_t lingered_bytes_ = 0;
  std::shared_ptr<held_bytes> held_;  ///< of a text tool's answer, until it has left
  bool reading_aside_ = false;        ///< the body is being read as JSON; nothing runs yet
  bool eof_ = false, close_after_ = false, chunked_ = false, message_ended_ = false;
};

}  // namespace troupe::net
