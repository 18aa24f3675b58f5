#include "net/http/http_session.hpp"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>

#include "net/server/json_worker.hpp"
#include "net/server/random_id.hpp"
#include "net/websocket/ws_session.hpp"

namespace troupe::net {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using error_code = boost::system::error_code;
using clock = std::chrono::steady_clock;

constexpr std::uint64_t header_bytes_max = 32 * 1024;
/// Read and dropped after an early error, while the client still sends its body.
constexpr std::size_t linger_bytes_max = 64 * 1024 * 1024;
constexpr auto linger_time = std::chrono::seconds{2};
constexpr std::size_t client_request_id_bytes_max = 128;

/// The client's own id when it can stand in a header and a log line, else a new one.
std::string request_id_of(const http_request& request) {
  const auto given = request.header("X-Request-Id");
  const bool usable =
      given && !given->empty() && given->size() <= client_request_id_bytes_max &&
      std::all_of(given->begin(), given->end(), [](char c) { return c > 0x20 && c < 0x7F; });
  return usable ? std::string{*given} : random_id("req_");
}

}  // namespace

http_session::http_session(std::shared_ptr<server_state> state, tcp::socket socket)
    : state_{std::move(state)},
      config_{state_->routes.config},
      socket_{std::move(socket)},
      sender_{*state_, socket_, *this},
      timer_{socket_.get_executor()} {}

void http_session::start() {
  state_->add(shared_from_this());
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    self->read_deadline_ = clock::now() + seconds(self->config_.keep_alive_timeout_s);
    self->idle_from_now();
    self->arm_timer();
    self->read();
  });
}

void http_session::refuse() {
  state_->add(shared_from_this());
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    self->refuse_unread(overloaded("Too many connections."));
    self->read();
  });
}

std::optional<std::int64_t> http_session::idle_since() const {
  const std::int64_t since = idle_since_;
  return since == not_idle ? std::nullopt : std::optional{since};
}

void http_session::read() {
  socket_.async_read_some(
      asio::buffer(chunk_),
      [self = shared_from_this()](const error_code& ec, std::size_t n) { self->on_read(ec, n); });
}

void http_session::on_read(const error_code& ec, std::size_t bytes) {
  if (phase_ == phase::closed) return;
  if (ec == asio::error::eof) return on_eof();
  if (ec) return finish(why_failed(socket_, ec));
  if (phase_ == phase::lingering) {
    lingered_bytes_ += bytes;
    if (lingered_bytes_ > linger_bytes_max) return finish(core::end_reason::client_gone);
    return read();
  }
  // Bytes behind a request are the next one: kept while the reply runs, up to a limit. Behind the
  // last request of a connection they are dropped.
  in_.append(chunk_.data(), bytes);
  if (phase_ == phase::replying) {
    if (sender_.closes_after_reply()) in_.clear();
    if (in_.size() > config_.max_pipelined_bytes) return finish(core::end_reason::client_gone);
  }
  parse();
  if (phase_ != phase::closed) read();
}

void http_session::on_eof() {
  eof_ = true;
  if (phase_ != phase::replying) return finish(core::end_reason::client_gone);
  // The rest of a reply that is complete may still be wanted.
  if (!on_worker_ && (!reply_ || reply_->done())) return;
  if (config_.half_close_is_gone) return finish(core::end_reason::client_gone);
  // Nothing can be read any more: a reset still shows as an error of the socket.
  socket_.async_wait(tcp::socket::wait_error, [self = shared_from_this()](const error_code& ec) {
    if (!ec) self->finish(core::end_reason::client_gone);
  });
}

void http_session::parse() {
  if (in_.empty() || (phase_ != phase::idle && phase_ != phase::reading)) return;
  if (!parser_) {
    in_.erase(0, empty_lines(in_));
    if (in_.empty() || in_ == "\r") return;
    idle_from_now();
    parser_.emplace(header_bytes_max, config_.max_body_bytes);
    phase_ = phase::reading;
    parsed_ = parse_state::head;
    read_deadline_ = clock::now() + seconds(config_.header_timeout_s);
    arm_timer();
  }
  const parse_state now = parser_->feed(in_);
  if (now == parse_state::body && parsed_ == parse_state::head) {
    read_deadline_ = clock::now() + seconds(config_.body_timeout_s);
    arm_timer();
  }
  parsed_ = now;
  if (parser_->wants_continue()) sender_.send_continue();
  if (!state_->hold_body(body_bytes_, parser_->body_bytes()))
    return refuse_unread(overloaded("Too many long requests at once."));
  if (now == parse_state::failed) return refuse_unread(parser_->error());
  if (now != parse_state::done) return;
  begin_reply();
  handle(parser_->take());
}

void http_session::begin_reply() {
  read_deadline_ = time_point::max();
  idle_since_ = not_idle;
  phase_ = phase::replying;
  ++state_->busy;
}

/// Answers bytes that cannot be a request, or come at a time when none is taken. What follows them
/// on this connection has no beginning that can be found, so it closes.
void http_session::refuse_unread(const api_error& error) {
  begin_reply();
  sender_.begin_refusal();
  sender_.send_whole(error_reply(error));
}

void http_session::handle(http_request request) {
  request_id_ = request_id_of(request);
  sender_.begin(request, request_id_);
  if (request.body.size() > long_json && reads_body(request))
    return parse_on_worker(std::move(request));
  routed found = route(request, state_->routes);
  on_routed(std::move(request), std::move(found));
}

void http_session::parse_on_worker(http_request request) {
  on_worker_ = true;
  const auto held = std::make_shared<http_request>(std::move(request));
  const auto work = [this, held] {  // not begun for a client that has left meanwhile
    return gone_ ? std::nullopt : std::optional{route(*held, state_->routes)};
  };
  run_on_worker(state_->json_worker, shared_from_this(), work, [this, held](routed found) {
    on_worker_ = false;
    if (phase_ == phase::replying) on_routed(std::move(*held), std::move(found));
  });
}

void http_session::on_routed(http_request request, routed found) {
  route_ = found.route;
  sender_.set_route(route_);
  auto& worker = request.body.size() > long_json ? state_->long_tool_worker : state_->tool_worker;
  request.body = {};
  if (auto* reply = std::get_if<http_reply>(&found.what))
    return sender_.send_whole(std::move(*reply));
  if (std::holds_alternative<upgrade>(found.what)) return hand_over(request);
  if (auto* slow = std::get_if<slow_reply>(&found.what)) return run_tool(std::move(*slow), worker);
  auto& api = std::get<api_request>(found.what);
  // Each choice has a delta of its own under way.
  sender_.limit_queue(config_.max_outbound_bytes * frames_factor * api.choices());
  reply_ =
      std::make_unique<generation_reply>(state_->routes, std::move(api), next_exchange_++, sender_);
  reply_->start(weak_from_this());
}

void http_session::run_tool(slow_reply make, worker_thread& worker) {
  using made = std::pair<http_reply, std::shared_ptr<held_bytes>>;
  auto work = [this, make = std::move(make)]() -> std::optional<made> {
    if (gone_) return std::nullopt;
    const bool full = state_->tool_bytes > tool_bytes_max;  // answers made before are not read
    auto reply = full ? error_reply(overloaded("Too many answers wait to be read.")) : make();
    auto held = std::make_shared<held_bytes>(state_->tool_bytes, reply.body.size());
    return made{std::move(reply), std::move(held)};
  };
  run_on_worker(worker, shared_from_this(), std::move(work), [this](made answer) {
    if (phase_ != phase::replying) return;
    held_ = std::move(answer.second);
    idle_from_now();  // all that is left is for the client to read
    sender_.send_whole(std::move(answer.first));
  });
}

void http_session::hand_over(const http_request& request) {
  if (!in_.empty())
    return sender_.send_whole(error_reply(invalid_body("Bytes follow the upgrade request.")));
  if (state_->websockets >= config_.max_websocket_connections)
    return sender_.send_whole(error_reply(overloaded("Too many WebSocket connections.")));
  phase_ = phase::closed;
  idle_since_ = not_idle;
  timer_.cancel();
  sender_.stop();
  --state_->busy;
  state_->routes.counters.on_http_request(route_, request.method, 101);
  start_ws_session(state_, std::move(socket_), request, request_id_);
  state_->remove(this);
}

void http_session::on_event(std::uint64_t exchange, std::size_t choice, generation_event event) {
  if (phase_ == phase::closed || !reply_ || reply_->serial() != exchange) return;
  reply_->on_event(choice, std::move(event));
}

void http_session::drain() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    if (self->phase_ == phase::idle) self->finish(core::end_reason::shutdown);
    self->sender_.close_after_reply();
  });
}

void http_session::abort() {
  asio::post(socket_.get_executor(),
             [self = shared_from_this()] { self->finish(core::end_reason::shutdown); });
}

void http_session::close_if_idle() {
  idle_since_ = not_idle;  // chosen once, however many connections want the place meanwhile
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    if (self->phase_ != phase::replying || self->held_) self->finish(core::end_reason::client_gone);
  });
}

void http_session::on_delta_sent(std::size_t choice) {
  if (reply_) reply_->on_written(choice);
}

void http_session::on_reply_sent() {
  reply_.reset();
  held_.reset();
  state_->hold_body(body_bytes_, 0);
  parser_.reset();
  --state_->busy;
  phase_ = phase::idle;
  if (sender_.closes_after_reply() || state_->routes.draining) return linger();
  if (eof_ && in_.empty()) return finish(core::end_reason::client_gone);
  idle_from_now();
  read_deadline_ = clock::now() + seconds(config_.keep_alive_timeout_s);
  arm_timer();
  parse();
  // The rest of a request whose sender has closed will never come.
  if (eof_ && phase_ == phase::reading) finish(core::end_reason::client_gone);
  const bool generates = phase_ == phase::replying && (reply_ || on_worker_);
  if (eof_ && generates && config_.half_close_is_gone) finish(core::end_reason::client_gone);
}

/// Closing with unread bytes would reset the connection, and the reset may reach the client before
/// the reply does. So only our side closes, and what comes is read and dropped for a while.
void http_session::linger() {
  if (eof_) return finish(core::end_reason::client_gone);
  phase_ = phase::lingering;
  idle_from_now();
  in_.clear();
  error_code ignored;
  socket_.shutdown(tcp::socket::shutdown_send, ignored);
  read_deadline_ = clock::now() + linger_time;
  arm_timer();
}

void http_session::finish(core::end_reason why) {
  if (phase_ == phase::closed) return;
  // First, so that the latency of the release counts from here.
  const core::time_us seen_at = state_->routes.engine.now();
  const bool in_progress = phase_ == phase::replying;
  phase_ = phase::closed;
  gone_ = true;
  sender_.stop();
  const auto what = reply_ && reply_->is_stream() ? transport::sse : transport::http;
  if (why == core::end_reason::slow_reader) state_->routes.counters.on_slow_reader(what);
  if (reply_) {
    if (why != core::end_reason::shutdown)
      state_->routes.counters.on_disconnect(what, reply_->phase());
    reply_->cancel(why, seen_at);
    reply_.reset();
  } else if (on_worker_ && why != core::end_reason::shutdown) {
    state_->routes.counters.on_disconnect(what, core::life_phase::queued);
  }
  held_.reset();
  state_->hold_body(body_bytes_, 0);
  idle_since_ = not_idle;
  if (in_progress) --state_->busy;
  timer_.cancel();
  error_code ignored;
  socket_.close(ignored);
  state_->remove(this);
}

void http_session::arm_timer() {
  const time_point next = std::min(read_deadline_, sender_.next_deadline());
  if (phase_ != phase::closed) timer_.arm(next, [self = shared_from_this()] { self->on_timer(); });
}

void http_session::on_timer() {
  if (phase_ == phase::closed) return;
  const time_point now = clock::now();
  if (sender_.is_late(now)) return finish(core::end_reason::slow_reader);
  if (now >= read_deadline_) {
    if (phase_ != phase::reading) return finish(core::end_reason::client_gone);
    refuse_unread(
        {.status = 408, .message = "The request arrived too slowly.", .code = "request_timeout"});
  }
  sender_.comment_if_due(now, reply_ && reply_->streaming());
  arm_timer();
}

}  // namespace troupe::net
