#include "net/http/http_session.hpp"

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>

#include "net/server/auth.hpp"
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
constexpr std::size_t linger_bytes_max =
    64 * 1024 * 1024;  ///< read and dropped after an early error
constexpr auto linger_time = std::chrono::seconds{2};

}  // namespace

http_session::http_session(std::shared_ptr<server_state> state, tcp::socket socket)
    : state_{std::move(state)},
      config_{state_->routes.config},
      socket_{std::move(socket)},
      timer_{socket_.get_executor()},
      out_{config_.max_outbound_bytes * frames_factor} {}

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
    self->phase_ = phase::replying;
    ++self->state_->busy;
    self->close_after_ = true;
    self->request_id_ = random_id("req_");
    self->send_whole(error_reply(overloaded("Too many connections.")));
    self->read();
  });
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
  in_.append(chunk_.data(), bytes);
  if (phase_ == phase::replying && !close_after_ && in_.size() > config_.max_pipelined_bytes)
    return finish(core::end_reason::client_gone);
  if (close_after_ && phase_ == phase::replying) in_.clear();
  parse();
  if (phase_ != phase::closed) read();
}

void http_session::on_eof() {
  eof_ = true;
  if (phase_ != phase::replying) return finish(core::end_reason::client_gone);
  if (!reading_aside_ && (!reply_ || reply_->done()))
    return;  // the rest of the reply may still be wanted
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
  if (parser_->wants_continue()) {
    out_.push("HTTP/1.1 100 Continue\r\n\r\n");
    write();
  }
  const bool room = state_->hold_body(body_bytes_, parser_->body_bytes());
  if (room && now != parse_state::done && now != parse_state::failed) return;
  read_deadline_ = time_point::max();
  idle_since_ = never;
  phase_ = phase::replying;
  ++state_->busy;
  message_ended_ = false;
  if (room && now == parse_state::done) return handle(parser_->take());
  const api_error error = room ? parser_->error() : overloaded("Too many long requests at once.");
  close_after_ = true;
  request_ = {};
  route_ = "other";
  request_id_ = random_id("req_");
  send_whole(error_reply(error));
}

void http_session::handle(http_request request) {
  const auto given = request.header("X-Request-Id");
  const bool printable =
      given && !given->empty() && given->size() <= 128 &&
      std::all_of(given->begin(), given->end(), [](char c) { return c > 0x20 && c < 0x7F; });
  request_id_ = printable ? std::string{*given} : random_id("req_");
  close_after_ = !request.keep_alive || state_->routes.draining;
  chunked_ = !request.http_1_0;
  if (request.body.size() > long_json && reads_body(request)) return read_aside(std::move(request));
  routed found = route(request, state_->routes);
  on_routed(std::move(request), std::move(found));
}

void http_session::read_aside(http_request request) {
  reading_aside_ = true;
  const auto held = std::make_shared<http_request>(std::move(request));
  const auto work = [this, held] {  // once gone, nobody waits any more
    return gone_ ? std::nullopt : std::optional{route(*held, state_->routes)};
  };
  run_aside(state_->readers, shared_from_this(), work, [this, held](routed found) {
    reading_aside_ = false;
    if (phase_ == phase::replying) on_routed(std::move(*held), std::move(found));
  });
}

void http_session::on_routed(http_request request, routed found) {
  route_ = found.route;
  auto& tools = request.body.size() > long_json ? state_->aside_long : state_->aside;
  request.body = {};
  request_ = std::move(request);
  if (auto* reply = std::get_if<http_reply>(&found.what)) return send_whole(std::move(*reply));
  if (std::holds_alternative<upgrade>(found.what)) return hand_over();
  if (auto* slow = std::get_if<slow_reply>(&found.what))
    return answer_aside(std::move(*slow), tools);
  auto& api = std::get<api_request>(found.what);
  out_.limit(config_.max_outbound_bytes * frames_factor *
             api.choices.size());  // each has a delta under way
  reply_ =
      std::make_unique<generation_reply>(state_->routes, std::move(api), next_exchange_++, *this);
  reply_->start(weak_from_this());
}

void http_session::answer_aside(slow_reply make, worker_thread& pool) {
  using made = std::pair<http_reply, std::shared_ptr<held_bytes>>;
  auto work = [this, make = std::move(make)]() -> std::optional<made> {
    if (gone_) return std::nullopt;                         // nobody waits any more
    const bool full = state_->tool_bytes > tool_bytes_max;  // what was made before is not read
    auto reply = full ? error_reply(overloaded("Too many answers wait to be read.")) : make();
    auto held = std::make_shared<held_bytes>(state_->tool_bytes, reply.body.size());
    return made{std::move(reply), std::move(held)};
  };
  run_aside(pool, shared_from_this(), std::move(work), [this](made answer) {
    if (phase_ != phase::replying) return;
    held_ = std::move(answer.second);
    idle_from_now();  // only its reader has something left to do
    send_whole(std::move(answer.first));
  });
}

void http_session::hand_over() {
  if (!in_.empty())
    return send_whole(error_reply(invalid_body("Bytes follow the upgrade request.")));
  if (state_->websockets >= config_.max_websocket_connections)
    return send_whole(error_reply(overloaded("Too many WebSocket connections.")));
  phase_ = phase::closed;
  idle_since_ = never;
  timer_.cancel();
  --state_->busy;
  state_->routes.counters.on_http_request(route_, request_.method, 101);
  start_ws_session(state_, std::move(socket_), request_, request_id_);
  state_->remove(this);
}

void http_session::on_event(std::uint64_t exchange, std::size_t choice, generation_event event) {
  if (phase_ == phase::closed || !reply_ || reply_->serial() != exchange) return;
  reply_->on_event(choice, std::move(event));
}

void http_session::drain() {
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    if (self->phase_ == phase::idle) self->finish(core::end_reason::shutdown);
    self->close_after_ = true;
  });
}

void http_session::abort() {
  asio::post(socket_.get_executor(),
             [self = shared_from_this()] { self->finish(core::end_reason::shutdown); });
}

void http_session::give_way() {
  idle_since_ = never;
  asio::post(socket_.get_executor(), [self = shared_from_this()] {
    if (self->phase_ != phase::replying || self->held_) self->finish(core::end_reason::client_gone);
  });
}

header_list http_session::common_headers(const std::string& content_type) {
  header_list headers{{"X-Request-Id", request_id_}};
  if (!content_type.empty()) headers.emplace_back("Content-Type", content_type);
  const auto origin = request_.header("Origin");
  if (origin && origin_is_allowed(config_, request_)) {
    headers.emplace_back("Access-Control-Allow-Origin", std::string{*origin});
    headers.emplace_back("Access-Control-Expose-Headers",
                         "X-Request-Id, X-Troupe-Id, Retry-After, X-Should-Retry");
    headers.emplace_back("Vary", "Origin");
  }
  if (close_after_) {
    headers.emplace_back("Connection", "close");
    return headers;
  }
  headers.emplace_back("Connection", "keep-alive");
  // A second less than the connection is kept, so that a client that goes by it closes first and
  // never sends into our close.
  if (const auto kept = static_cast<std::uint64_t>(config_.keep_alive_timeout_s); kept > 1)
    headers.emplace_back("Keep-Alive", "timeout=" + std::to_string(kept - 1));
  return headers;
}

void http_session::send_whole(http_reply reply) {
  state_->routes.counters.on_http_request(route_, request_.method, reply.status);
  const bool has_body = reply.status != 204;
  header_list headers = common_headers(has_body ? reply.content_type : "");
  for (auto& header : reply.headers) headers.push_back(std::move(header));
  if (has_body) headers.emplace_back("Content-Length", std::to_string(reply.body.size()));
  std::string message = reply_head(reply.status, headers);
  if (has_body && request_.method != "HEAD") message += reply.body;
  message_ended_ = true;
  out_.push_always(std::move(message));
  write();
}

void http_session::send_stream_head(header_list extra) {
  state_->routes.counters.on_http_request(route_, request_.method, 200);
  if (!chunked_) close_after_ = true;
  header_list headers = common_headers("text/event-stream; charset=utf-8");
  headers.emplace_back("Cache-Control", "no-cache");
  headers.emplace_back("X-Accel-Buffering", "no");
  if (chunked_) headers.emplace_back("Transfer-Encoding", "chunked");
  for (auto& header : extra) headers.push_back(std::move(header));
  out_.push_always(reply_head(200, headers));
  comment_at_ = clock::now() + seconds(config_.sse_keep_alive_interval_s);
  arm_timer();
  write();
}

void http_session::send_chunk(std::string data, std::size_t credit) {
  if (chunked_) {
    char size[20];
    const int n = std::snprintf(size, sizeof size, "%zx\r\n", data.size());
    data.insert(0, size, static_cast<std::size_t>(n));
    data += "\r\n";
  }
  if (out_.push(std::move(data), credit) == push_result::dropped) {
    // Not from here: the reply that called is about to be destroyed.
    asio::post(socket_.get_executor(),
               [self = shared_from_this()] { self->finish(core::end_reason::slow_reader); });
    return;
  }
  write();
}

void http_session::send_stream_end() {
  if (chunked_) out_.push_always("0\r\n\r\n");
  comment_at_ = time_point::max();
  message_ended_ = true;
  write();
}

void http_session::write() {
  if (phase_ == phase::closed || !out_.begin_write()) return;
  drain_deadline_ = clock::now() + seconds(config_.client_drain_timeout_s);
  write_rest();
}

void http_session::write_rest() {
  write_deadline_ = clock::now() + seconds(config_.client_send_timeout_s);
  arm_timer();
  const auto rest = out_.writing();
  socket_.async_write_some(
      asio::buffer(rest.data(), rest.size()),
      [self = shared_from_this()](const error_code& ec, std::size_t n) { self->on_write(ec, n); });
}

void http_session::on_write(const error_code& ec, std::size_t bytes) {
  if (phase_ == phase::closed) return;
  if (ec) return finish(why_failed(socket_, ec));
  if (!out_.advance(bytes)) return write_rest();
  write_deadline_ = drain_deadline_ = time_point::max();
  if (comment_at_ != time_point::max())
    comment_at_ = clock::now() + seconds(config_.sse_keep_alive_interval_s);
  for (const std::size_t choice : out_.credits())
    if (reply_) reply_->on_written(choice);
  write();
  if (out_.empty() && message_ended_ && phase_ == phase::replying) reply_complete();
}

void http_session::reply_complete() {
  reply_.reset();
  held_.reset();
  state_->hold_body(body_bytes_, 0);
  parser_.reset();
  request_ = {};
  --state_->busy;
  phase_ = phase::idle;
  message_ended_ = false;
  if (close_after_ || state_->routes.draining) return linger();
  if (eof_ && in_.empty()) return finish(core::end_reason::client_gone);
  idle_from_now();
  read_deadline_ = clock::now() + seconds(config_.keep_alive_timeout_s);
  arm_timer();
  parse();
  // The rest of a request whose sender has closed will never come.
  if (eof_ && phase_ == phase::reading) finish(core::end_reason::client_gone);
  const bool generates = phase_ == phase::replying && (reply_ || reading_aside_);
  if (eof_ && generates && config_.half_close_is_gone) finish(core::end_reason::client_gone);
}

void http_session::linger() {
  // Closing with unread bytes would reset the connection and may take the reply with it.
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
  const core::time_us seen_at = state_->routes.engine.now();
  const bool in_progress = phase_ == phase::replying;
  phase_ = phase::closed;
  gone_ = true;
  const auto what = reply_ && reply_->is_stream() ? transport::sse : transport::http;
  if (why == core::end_reason::slow_reader) state_->routes.counters.on_slow_reader(what);
  if (reply_) {
    if (why != core::end_reason::shutdown)
      state_->routes.counters.on_disconnect(what, reply_->phase());
    reply_->cancel(why, seen_at);
    reply_.reset();
  } else if (reading_aside_ && why != core::end_reason::shutdown) {
    state_->routes.counters.on_disconnect(what, core::life_phase::queued);
  }
  held_.reset();
  state_->hold_body(body_bytes_, 0);
  idle_since_ = never;
  if (in_progress) --state_->busy;
  close_socket();
  state_->remove(this);
}

void http_session::close_socket() {
  timer_.cancel();
  error_code ignored;
  socket_.close(ignored);
}

void http_session::arm_timer() {
  const time_point next = std::min({read_deadline_, write_deadline_, drain_deadline_, comment_at_});
  if (phase_ != phase::closed) timer_.arm(next, [self = shared_from_this()] { self->on_timer(); });
}

void http_session::on_timer() {
  if (phase_ == phase::closed) return;
  const time_point now = clock::now();
  if (now >= std::min(write_deadline_, drain_deadline_))
    return finish(core::end_reason::slow_reader);
  if (now >= read_deadline_) {
    if (phase_ != phase::reading) return finish(core::end_reason::client_gone);
    read_deadline_ = time_point::max();
    phase_ = phase::replying;
    ++state_->busy;
    close_after_ = true;
    request_id_ = random_id("req_");
    route_ = "other";
    send_whole(error_reply(
        {.status = 408, .message = "The request arrived too slowly.", .code = "request_timeout"}));
  }
  if (now >= comment_at_) {
    comment_at_ = now + seconds(config_.sse_keep_alive_interval_s);
    if (out_.empty() && reply_ && reply_->streaming())
      send_chunk(sse_keep_alive, outbound::no_credit);
  }
  arm_timer();
}

}  // namespace troupe::net
