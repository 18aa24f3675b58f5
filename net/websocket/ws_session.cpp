#include "net/websocket/ws_session.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <deque>

#include "net/server/auth.hpp"
#include "net/server/next_timer.hpp"
#include "net/server/peer_watch.hpp"
#include "net/websocket/frame_flood.hpp"
#include "net/websocket/ws_lane.hpp"
#include "net/websocket/ws_messages.hpp"

namespace troupe::net {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace websocket = beast::websocket;
using error_code = boost::system::error_code;
using clock = std::chrono::steady_clock;
using time_point = clock::time_point;

/// How often the kernel is asked whether the peer has left: while something is under way, and while
/// nothing is.
constexpr std::chrono::milliseconds watch_interval{50}, idle_watch_interval{1000};
/// Checks (a second of them) after which a peer that sends and never reads is closed.
constexpr int unread_checks_max = 20;
/// From either side's close frame until the socket goes, whatever the peer does.
constexpr auto close_time = std::chrono::seconds{3};

class ws_session final : public connection,
                         public ws_lane::port,
                         public std::enable_shared_from_this<ws_session> {
 public:
  ws_session(std::shared_ptr<server_state> state, asio::ip::tcp::socket socket)
      : state_{std::move(state)},
        config_{state_->routes.config},
        ws_{std::move(socket)},
        timer_{ws_.get_executor()},
        messages_{*state_, [this](ws_message m) { on_message(std::move(m)); },
                  [this] { next_message(); }},
        lane_{state_->routes, *this} {}

  void start(const http_request&, const std::string& request_id);
  asio::any_io_executor executor() override { return ws_.get_executor(); }
  void on_event(std::uint64_t exchange, std::size_t choice, generation_event) override;
  void drain() override;
  void abort() override;

  void send(std::string frame, std::uint64_t credit) override;
  std::uint64_t next_serial() override { return next_serial_++; }
  std::weak_ptr<event_receiver> receiver() override { return weak_from_this(); }
  void on_response_begun() override;
  void on_response_over() override;

 private:
  struct frame {
    std::string text;
    std::uint64_t credit = 0;  ///< serial of its exchange, 0 = none
    time_point queued_at{};
  };

  void on_accept(const error_code&);
  void on_control();
  void read();
  void on_read(const error_code&);
  void next_message();
  void on_message(ws_message);
  void write();
  void on_write(const error_code&);
  void close(websocket::close_code, const char* why,
             core::end_reason = core::end_reason::client_gone);
  void close_when_quiet();
  void stop_taking();
  void leave(core::end_reason, core::time_us seen_at);
  void finish(core::end_reason);
  void count_busy();
  void arm_timer();
  void on_timer();
  void watch_soon();
  void check_peer();

  std::shared_ptr<server_state> state_;
  const runtime_config& config_;
  websocket::stream<asio::ip::tcp::socket> ws_;
  next_timer timer_;
  time_point age_deadline_ = time_point::max(), write_deadline_ = time_point::max();
  time_point message_deadline_ = time_point::max(), close_deadline_ = time_point::max();
  time_point watch_at_ = time_point::max();
  peer_watch peer_;
  beast::flat_buffer in_;
  ws_messages messages_;
  frame_flood flood_;
  std::deque<frame> out_;  ///< the front is the write in flight
  std::size_t out_bytes_ = 0;
  /// closing_: nothing more is taken in or queued; leaving_: closes when the active response ends.
  bool reading_ = false, writing_ = false, closing_ = false, leaving_ = false, finished_ = false;
  core::end_reason closed_for_ = core::end_reason::client_gone;
  bool counted_busy_ = false;
  std::uint64_t next_serial_ = 1;
  ws_lane lane_;
};

void ws_session::start(const http_request& request, const std::string& request_id) {
  state_->add(shared_from_this());
  ++state_->websockets;
  state_->routes.counters.on_websocket_open();
  websocket::stream_base::timeout limits{};
  limits.handshake_timeout = std::chrono::seconds{5};  // of the closing handshake, too
  // Beast pings after half of the idle time without traffic, and drops after all of it.
  limits.idle_timeout = seconds(2 * config_.ws_ping_interval_s);
  limits.keep_alive_pings = true;
  ws_.set_option(limits);
  ws_.read_message_max(config_.max_message_bytes);
  const bool select = offers_responses_protocol(request);
  ws_.set_option(
      websocket::stream_base::decorator([select, request_id](websocket::response_type& response) {
        response.set("X-Request-Id", request_id);
        if (select) response.set("Sec-WebSocket-Protocol", "responses");
      }));
  beast::http::request<beast::http::empty_body> handshake{beast::http::verb::get, request.target,
                                                          11};
  for (const auto& [key, value] : request.headers) handshake.insert(key, value);
  ws_.async_accept(handshake,
                   [self = shared_from_this()](const error_code& ec) { self->on_accept(ec); });
}

void ws_session::on_accept(const error_code& ec) {
  if (ec) return finish(core::end_reason::client_gone);
  ws_.text(true);
  ws_.control_callback([this](websocket::frame_type kind, beast::string_view) {
    // The read that takes the peer's close frame completes only when the peer has closed its side
    // of TCP as well, which it may never do: what runs is cancelled here.
    if (kind == websocket::frame_type::close)
      leave(core::end_reason::client_gone, state_->routes.engine.now());
    else
      on_control();
    watch_soon();  // our answer may not leave, and then nothing is read
  });
  age_deadline_ = clock::now() + seconds(config_.ws_max_age_s);
  watch_at_ = clock::now() + idle_watch_interval;
  arm_timer();
  read();
}

void ws_session::on_control() {
  if (!flood_.on_control(clock::now())) return;
  // Posted: this runs inside a read, which goes on to the next frame without giving a turn.
  asio::post(ws_.get_executor(), [self = shared_from_this()] {
    self->close(websocket::close_code::policy_error, "more than 1,000 pings and pongs in a second");
  });
}

void ws_session::read() {
  reading_ = true;
  ws_.async_read_some(in_, 0, [self = shared_from_this()](const error_code& ec, std::size_t) {
    self->on_read(ec);
  });
}

void ws_session::on_read(const error_code& ec) {
  reading_ = false;
  if (finished_) return;
  if (ec) return finish(why_failed(ws_.next_layer(), ec));
  if (!ws_.is_message_done()) {
    if (!closing_)
      message_deadline_ =
          std::min(message_deadline_, clock::now() + seconds(config_.body_timeout_s));
    if (flood_.on_piece(in_.size()))
      close(websocket::close_code::too_big, "a message of more than 4,096 pieces below 512 bytes");
    arm_timer();
    return read();
  }
  message_deadline_ = time_point::max();
  flood_.on_message();
  if (ws_.got_binary()) {
    close(websocket::close_code::unknown_data, "text frames only");
  } else if (!closing_) {
    messages_.push(beast::buffers_to_string(in_.cdata()));
  }
  in_.consume(in_.size());
  if (in_.capacity() > long_json) in_.shrink_to_fit();
  next_message();
}

void ws_session::next_message() {
  messages_.run(shared_from_this());
  count_busy();
  if (messages_.reading()) watch_soon();
  // A read stays pending at all times, for pings and for the end of the connection; only a client
  // whose messages cannot be parsed as fast as it sends them waits.
  if (!reading_ && !finished_ && !messages_.full()) read();
  close_when_quiet();
}

void ws_session::on_message(ws_message message) {
  if (const auto* e = std::get_if<api_error>(&message)) return send(error_envelope(*e), 0);
  if (const auto* c = std::get_if<ws_cancel>(&message)) return lane_.cancel(*c);
  if (std::holds_alternative<ws_steer>(message)) return send(steering_failed(), 0);
  if (state_->routes.draining || leaving_) return send(error_envelope(shutting_down()), 0);
  lane_.create(std::get<api_request>(std::move(message)));
}

void ws_session::on_event(std::uint64_t serial, std::size_t choice, generation_event event) {
  if (!finished_) lane_.on_event(serial, choice, std::move(event));
}

void ws_session::on_response_begun() {
  count_busy();
  watch_soon();
}

void ws_session::on_response_over() {
  if (finished_) return;
  lane_.run_next();
  count_busy();
  close_when_quiet();
}

void ws_session::send(std::string text, std::uint64_t credit) {
  if (finished_ || closing_) return;
  if (!out_.empty() && out_bytes_ + text.size() > config_.max_outbound_bytes * frames_factor)
    return close(websocket::close_code::policy_error, "the answers are not read",
                 core::end_reason::slow_reader);
  out_bytes_ += text.size();
  out_.push_back({std::move(text), credit, clock::now()});
  count_busy();
  write();
}

void ws_session::write() {
  if (writing_ || closing_ || out_.empty()) return;
  writing_ = true;
  // Beast reports a frame when all of it has left, so the limit for progress is one for the frame.
  write_deadline_ = std::min(clock::now() + seconds(config_.client_send_timeout_s),
                             out_.front().queued_at + seconds(config_.client_drain_timeout_s));
  watch_soon();
  ws_.async_write(
      asio::buffer(out_.front().text),
      [self = shared_from_this()](const error_code& ec, std::size_t) { self->on_write(ec); });
}

void ws_session::on_write(const error_code& ec) {
  writing_ = false;
  write_deadline_ = time_point::max();
  if (finished_) return;
  if (ec) return finish(why_failed(ws_.next_layer(), ec));
  const std::uint64_t credit = out_.front().credit;
  out_bytes_ -= out_.front().text.size();
  out_.pop_front();
  count_busy();
  lane_.on_frame_sent(credit);
  write();
  close_when_quiet();
}

void ws_session::close_when_quiet() {
  const bool quiet = lane_.quiet() && out_.empty() && !messages_.reading();
  if (leaving_ && quiet) close(websocket::close_code::going_away, "");
}

void ws_session::close(websocket::close_code code, const char* why, core::end_reason because) {
  if (closing_ || finished_) return;
  stop_taking();
  closed_for_ = because;
  lane_.cancel_active(closed_for_, state_->routes.engine.now());
  ws_.async_close({code, why}, [self = shared_from_this()](const error_code&) {
    self->finish(self->closed_for_);
  });
}

/// Nothing more is taken in, and the socket goes after close_time.
void ws_session::stop_taking() {
  closing_ = true;
  lane_.drop_waiting();
  messages_.drop();
  message_deadline_ = time_point::max();
  close_deadline_ = std::min(close_deadline_, clock::now() + close_time);
  arm_timer();
}

void ws_session::drain() {
  asio::post(ws_.get_executor(), [self = shared_from_this()] {
    self->leaving_ = true;
    self->close_when_quiet();
  });
}

void ws_session::abort() {
  asio::post(ws_.get_executor(),
             [self = shared_from_this()] { self->finish(core::end_reason::shutdown); });
}

/// The client is gone, or as good as: nothing more is computed for it, and nothing is sent but the
/// frame in flight.
void ws_session::leave(core::end_reason why, core::time_us seen_at) {
  stop_taking();
  while (out_.size() > (writing_ ? 1u : 0u)) out_.pop_back();
  const auto phase = lane_.abandon(why, seen_at);
  if (phase && why != core::end_reason::shutdown)
    state_->routes.counters.on_disconnect(transport::ws, *phase);
  count_busy();
}

void ws_session::finish(core::end_reason why) {
  if (finished_) return;
  // First, so that the latency of the release counts from here.
  const core::time_us seen_at = state_->routes.engine.now();
  if (why == core::end_reason::slow_reader) state_->routes.counters.on_slow_reader(transport::ws);
  leave(why, seen_at);
  finished_ = true;
  count_busy();
  timer_.cancel();
  error_code ignored;
  ws_.next_layer().close(ignored);
  --state_->websockets;
  state_->routes.counters.on_websocket_closed();
  state_->remove(this);
}

/// The server waits for its busy connections when it drains: while a response runs or its frames
/// have not left.
void ws_session::count_busy() {
  const bool busy = !finished_ && (lane_.active() || !out_.empty() || messages_.reading());
  if (busy == counted_busy_) return;
  counted_busy_ = busy;
  busy ? ++state_->busy : --state_->busy;
}

void ws_session::arm_timer() {
  const time_point next =
      std::min({age_deadline_, write_deadline_, message_deadline_, close_deadline_, watch_at_});
  if (!finished_) timer_.arm(next, [self = shared_from_this()] { self->on_timer(); });
}

void ws_session::on_timer() {
  if (finished_) return;
  const time_point now = clock::now();
  if (now >= write_deadline_) return finish(core::end_reason::slow_reader);
  if (now >= close_deadline_) return finish(closed_for_);
  if (now >= message_deadline_)
    close(websocket::close_code::policy_error, "the message arrived too slowly");
  if (now >= watch_at_) check_peer();
  if (finished_) return;
  if (now >= age_deadline_) {
    age_deadline_ = time_point::max();
    leaving_ = true;
    send(error_envelope({.message = "This connection has reached its age limit.",
                         .code = "websocket_connection_limit_reached"}),
         0);
    close_when_quiet();
  }
  arm_timer();
}

void ws_session::watch_soon() {
  watch_at_ = std::min(watch_at_, clock::now() + watch_interval);
  arm_timer();
}

/// Beast answers pings and a close within the read. While such an answer cannot leave, because the
/// peer takes nothing, the read does not go on and never sees the end of the peer's side.
void ws_session::check_peer() {
  // Behind a broken frame Beast sends its close and then waits for the peer's, without a limit and
  // without a word to us.
  if (!closing_ && !ws_.is_open())
    leave(core::end_reason::client_gone, state_->routes.engine.now());
  const auto seen = peer_.check(ws_.next_layer().native_handle(), reading_, unread_checks_max);
  if (seen == peer_watch::verdict::gone) return finish(core::end_reason::client_gone);
  if (seen == peer_watch::verdict::never_reads) return finish(core::end_reason::slow_reader);
  const bool quiet =
      !lane_.active() && !writing_ && !messages_.reading() && seen == peer_watch::verdict::quiet;
  watch_at_ = clock::now() + (quiet ? idle_watch_interval : watch_interval);
}

}  // namespace

void start_ws_session(std::shared_ptr<server_state> state, asio::ip::tcp::socket socket,
                      const http_request& request, const std::string& request_id) {
  std::make_shared<ws_session>(std::move(state), std::move(socket))->start(request, request_id);
}

}  // namespace troupe::net
