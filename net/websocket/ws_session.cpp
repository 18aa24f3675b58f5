#include "net/websocket/ws_session.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/websocket/stream.hpp>
#include <ctime>
#include <deque>
#include <optional>

#include "net/api/responses_events.hpp"
#include "net/server/auth.hpp"
#include "net/server/exchange.hpp"
#include "net/server/next_timer.hpp"
#include "net/server/peer_watch.hpp"
#include "net/server/random_id.hpp"
#include "net/websocket/frame_flood.hpp"
#include "net/websocket/ws_messages.hpp"

namespace troupe::net {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace websocket = beast::websocket;
using error_code = boost::system::error_code;
using clock = std::chrono::steady_clock;
using time_point = clock::time_point;

constexpr std::chrono::milliseconds look_interval{50}, idle_look_interval{1000};
constexpr int deaf_looks = 20;  ///< a second: it sends and does not read
constexpr auto close_time =
    std::chrono::seconds{3};  ///< until the socket goes, once either side has said its close

class ws_session final : public connection, public std::enable_shared_from_this<ws_session> {
 public:
  ws_session(std::shared_ptr<server_state> state, asio::ip::tcp::socket socket)
      : state_{std::move(state)},
        config_{state_->routes.config},
        ws_{std::move(socket)},
        timer_{ws_.get_executor()},
        messages_{*state_, [this](ws_message m) { on_message(std::move(m)); },
                  [this] { next_message(); }} {}

  void start(const http_request&, const std::string& request_id);
  asio::any_io_executor executor() override { return ws_.get_executor(); }
  void on_event(std::uint64_t exchange, std::size_t choice, generation_event) override;
  void drain() override;
  void abort() override;

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
  void create(api_request);
  void cancel(const ws_cancel&);
  void run(api_request);
  void run_next();
  void on_end(core::generation_end);
  void send(std::string text, std::uint64_t credit = 0);
  void send(std::vector<wire_event>, std::uint64_t credit = 0);
  void write();
  void on_write(const error_code&);
  void close(websocket::close_code, const char* why,
             core::end_reason = core::end_reason::client_gone);
  void close_when_quiet();
  void leave(core::end_reason, core::time_us seen_at);  ///< nothing more is computed or said
  void finish(core::end_reason);
  void count_busy();  ///< a response runs, or its frames have not left
  void close_soon();  ///< takes nothing more in; whatever the peer does
  void arm_timer();
  void on_timer();
  void watch() { look_at_ = std::min(look_at_, clock::now() + look_interval), arm_timer(); }
  void look();

  std::shared_ptr<server_state> state_;
  const runtime_config& config_;
  websocket::stream<asio::ip::tcp::socket> ws_;
  next_timer timer_;
  time_point age_deadline_ = time_point::max(), write_deadline_ = time_point::max();
  time_point message_deadline_ = time_point::max(), close_deadline_ = time_point::max();
  time_point look_at_ =
      time_point::max();  ///< has the peer left behind our back? Often while something is under way
  peer_watch watch_;
  beast::flat_buffer in_;
  ws_messages messages_;
  frame_flood flood_;
  std::deque<frame> out_;  ///< the front is the write in flight
  std::size_t out_bytes_ = 0;
  bool reading_ = false, writing_ = false, closing_ = false, leaving_ = false, finished_ = false;
  core::end_reason closed_for_ = core::end_reason::client_gone;

  std::deque<api_request> queue_;
  std::unique_ptr<exchange> exchange_;  ///< the active response
  std::optional<responses_events> events_;
  bool begun_ = false, counted_busy_ = false;
  std::uint64_t next_exchange_ = 1;
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
  // The read that sees a close ends only when the peer has closed its side of TCP, too.
  ws_.control_callback([this](websocket::frame_type kind, beast::string_view) {
    if (kind == websocket::frame_type::close)
      leave(core::end_reason::client_gone, state_->routes.engine.now());
    if (kind != websocket::frame_type::close) on_control();
    watch();  // what we answer may not leave, and then nothing is read
  });
  age_deadline_ = clock::now() + seconds(config_.ws_max_age_s),
  look_at_ = clock::now() + idle_look_interval;
  arm_timer();
  read();
}

/// Within a read, which goes on to the next one without end: what closes has its own turn.
void ws_session::on_control() {
  if (!flood_.on_control(clock::now())) return;
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
  if (messages_.reading()) watch();
  if (!reading_ && !finished_ && !messages_.full()) read();
  close_when_quiet();
}

void ws_session::on_message(ws_message message) {
  if (const auto* e = std::get_if<api_error>(&message)) return send(error_envelope(*e));
  if (const auto* c = std::get_if<ws_cancel>(&message)) return cancel(*c);
  if (std::holds_alternative<ws_steer>(message)) return send(steering_failed());
  create(std::get<api_request>(std::move(message)));
}

void ws_session::create(api_request request) {
  if (state_->routes.draining || leaving_) return send(error_envelope(shutting_down()));
  if (!exchange_) return run(std::move(request));
  if (queue_.size() >= config_.max_ws_queue)
    return send(error_envelope(websocket_queue_full(config_.max_ws_queue)));
  queue_.push_back(std::move(request));
}

void ws_session::cancel(const ws_cancel& message) {
  if (!exchange_ || (message.response_id && *message.response_id != exchange_->object_id())) return;
  state_->routes.registry.cancel(exchange_->object_id(), state_->routes.engine.now());
}

void ws_session::run(api_request request) {
  auto& routes = state_->routes;
  exchange_ = std::make_unique<exchange>(routes.engine, routes.registry, next_exchange_++,
                                         random_id("resp_"));
  reply_meta meta;
  meta.id = exchange_->object_id();
  meta.unix_now = [] { return static_cast<std::int64_t>(std::time(nullptr)); };
  meta.created = meta.unix_now();
  events_.emplace(request, std::move(meta));
  begun_ = false;
  count_busy();
  watch();
  exchange_->start(std::move(request.choices), weak_from_this());
}

void ws_session::run_next() {
  exchange_.reset();
  events_.reset();
  count_busy();
  if (queue_.empty()) return close_when_quiet();
  api_request next = std::move(queue_.front());
  queue_.pop_front();
  run(std::move(next));
}

void ws_session::on_event(std::uint64_t serial, std::size_t choice, generation_event event) {
  if (finished_ || !exchange_ || exchange_->serial() != serial) return;
  if (std::holds_alternative<accepted_event>(event)) {
    if (!exchange_->on_accepted(choice) || begun_) return;
    begun_ = true;
    return send(events_->begin());
  }
  if (const auto* d = std::get_if<core::generation_delta>(&event)) {
    if (!exchange_->on_delta(choice)) return;
    auto frames = events_->delta(d->text);
    return frames.empty() ? exchange_->delivered(choice) : send(std::move(frames), serial);
  }
  if (exchange_->on_end(choice)) on_end(std::move(std::get<core::generation_end>(event)));
}

void ws_session::on_end(core::generation_end end) {
  const auto error = error_of(end, prompt_field(api_kind::responses));
  if (error) {
    begun_ ? send(events_->fail(*error)) : send(error_envelope(*error));
  } else {
    if (!begun_) send(events_->begin());
    send(events_->finish(end));
  }
  if (!finished_) run_next();
}

void ws_session::send(std::vector<wire_event> events, std::uint64_t credit) {
  for (auto& e : events) send(std::move(e.json), credit);
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
  // Frames are small beside a write of plain HTTP, so the first limit is for a whole one.
  write_deadline_ = std::min(clock::now() + seconds(config_.client_send_timeout_s),
                             out_.front().queued_at + seconds(config_.client_drain_timeout_s));
  watch();
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
  if (exchange_ && credit == exchange_->serial()) exchange_->delivered(0);
  write();
  close_when_quiet();
}

void ws_session::close_when_quiet() {
  const bool quiet = !exchange_ && queue_.empty() && out_.empty() && !messages_.reading();
  if (leaving_ && quiet) close(websocket::close_code::going_away, "");
}

void ws_session::close(websocket::close_code code, const char* why, core::end_reason because) {
  if (closing_ || finished_) return;
  close_soon();
  closed_for_ = because;
  if (exchange_) exchange_->cancel_rest(closed_for_, state_->routes.engine.now());
  ws_.async_close({code, why}, [self = shared_from_this()](const error_code&) {
    self->finish(self->closed_for_);
  });
}

void ws_session::close_soon() {
  closing_ = true;
  queue_.clear();
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

void ws_session::leave(core::end_reason why, core::time_us seen_at) {
  close_soon();
  while (out_.size() > (writing_ ? 1u : 0u)) out_.pop_back();
  if (exchange_) {
    if (why != core::end_reason::shutdown)
      state_->routes.counters.on_disconnect(transport::ws, exchange_->phase());
    exchange_->cancel_rest(why, seen_at);
    exchange_.reset();
  }
  count_busy();
}

void ws_session::finish(core::end_reason why) {
  if (finished_) return;
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

void ws_session::count_busy() {
  const bool busy = !finished_ && (exchange_ || !out_.empty() || messages_.reading());
  if (busy == counted_busy_) return;
  counted_busy_ = busy;
  busy ? ++state_->busy : --state_->busy;
}

void ws_session::arm_timer() {
  const time_point next =
      std::min({age_deadline_, write_deadline_, message_deadline_, close_deadline_, look_at_});
  if (!finished_) timer_.arm(next, [self = shared_from_this()] { self->on_timer(); });
}

void ws_session::on_timer() {
  if (finished_) return;
  const time_point now = clock::now();
  if (now >= write_deadline_) return finish(core::end_reason::slow_reader);
  if (now >= close_deadline_) return finish(closed_for_);
  if (now >= message_deadline_)
    close(websocket::close_code::policy_error, "the message arrived too slowly");
  if (now >= look_at_) look();
  if (finished_) return;
  if (now >= age_deadline_) {
    age_deadline_ = time_point::max(), leaving_ = true;
    send(error_envelope({.message = "This connection has reached its age limit.",
                         .code = "websocket_connection_limit_reached"}));
    close_when_quiet();
  }
  arm_timer();
}

/// A read answers pings and a close, so where those cannot leave it does not see the end of the
/// peer's side either.
void ws_session::look() {
  // Behind a broken frame the stream says its close and waits for the peer's, for ever, without a
  // word to us.
  if (!closing_ && !ws_.is_open())
    leave(core::end_reason::client_gone, state_->routes.engine.now());
  const auto seen = watch_.look(ws_.next_layer().native_handle(), reading_, deaf_looks);
  if (seen == peer_watch::sight::gone) return finish(core::end_reason::client_gone);
  if (seen == peer_watch::sight::deaf) return finish(core::end_reason::slow_reader);
  const bool quiet =
      !exchange_ && !writing_ && !messages_.reading() && seen == peer_watch::sight::quiet;
  look_at_ = clock::now() + (quiet ? idle_look_interval : look_interval);
}

}  // namespace

void start_ws_session(std::shared_ptr<server_state> state, asio::ip::tcp::socket socket,
                      const http_request& request, const std::string& request_id) {
  std::make_shared<ws_session>(std::move(state), std::move(socket))->start(request, request_id);
}

}  // namespace troupe::net
