#include "net/http/http_sender.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>

#include "net/server/auth.hpp"
#include "net/server/random_id.hpp"

namespace troupe::net {
namespace {

namespace asio = boost::asio;
using error_code = boost::system::error_code;
using clock = std::chrono::steady_clock;

}  // namespace

http_sender::http_sender(server_state& state, asio::ip::tcp::socket& socket, sender_events& events)
    : state_{state},
      config_{state.routes.config},
      socket_{socket},
      events_{events},
      queue_{config_.max_outbound_bytes * frames_factor} {}

void http_sender::begin(const http_request& request, std::string request_id) {
  method_ = request.method;
  request_id_ = std::move(request_id);
  http_1_0_ = request.http_1_0;
  const auto origin = request.header("Origin");
  // Decided once for the whole reply: a page that is not allowed gets no CORS field, and its
  // browser keeps the reply from it.
  const bool allowed = origin && origin_is_allowed(config_, request);
  page_ = allowed ? std::optional{std::string{*origin}} : std::nullopt;
  // While the server drains each reply is its connection's last.
  if (!request.keep_alive || state_.routes.draining) close_after_reply_ = true;
}

void http_sender::begin_refusal() {
  begin({}, random_id("req_"));
  route_ = "other";
  close_after_reply_ = true;
}

header_list http_sender::common_headers(const std::string& content_type) const {
  header_list headers{{"X-Request-Id", request_id_}};
  if (!content_type.empty()) headers.emplace_back("Content-Type", content_type);
  if (page_) {
    headers.emplace_back("Access-Control-Allow-Origin", *page_);
    // A page sees only the fields named here (and a few that every page may see).
    headers.emplace_back("Access-Control-Expose-Headers",
                         "X-Request-Id, X-Troupe-Id, Retry-After, X-Should-Retry");
    headers.emplace_back("Vary", "Origin");
  }
  if (close_after_reply_) {
    headers.emplace_back("Connection", "close");
    return headers;
  }
  headers.emplace_back("Connection", "keep-alive");
  // A second less than the connection is kept, so that a client that goes by it closes first and
  // never sends into our close.
  if (const auto kept = static_cast<std::uint64_t>(config_.keep_alive_timeout_s); kept > 1)
    headers.emplace_back("Keep-Alive", fmt::format("timeout={}", kept - 1));
  return headers;
}

void http_sender::send_continue() {
  queue_.push_always("HTTP/1.1 100 Continue\r\n\r\n");
  write();
}

void http_sender::send_whole(http_reply reply) {
  state_.routes.counters.on_http_request(route_, method_, reply.status);
  // RFC 9110 (8.6): a 204 has neither body nor Content-Length; the reply to HEAD has the length it
  // would have had.
  const bool has_body = reply.status != 204;
  header_list headers = common_headers(has_body ? reply.content_type : "");
  for (auto& header : reply.headers) headers.push_back(std::move(header));
  if (has_body) headers.emplace_back("Content-Length", std::to_string(reply.body.size()));
  std::string message = reply_head(reply.status, headers);
  if (has_body && method_ != "HEAD") message += reply.body;
  reply_ended_ = true;
  // A whole reply is never dropped: it is there already, and no other one waits behind it.
  queue_.push_always(message);
  write();
}

void http_sender::send_stream_head(header_list extra) {
  state_.routes.counters.on_http_request(route_, method_, 200);
  // HTTP/1.0 knows no chunks: there the end of the connection is the end of the stream.
  chunked_ = !http_1_0_;
  if (!chunked_) close_after_reply_ = true;
  header_list headers = common_headers("text/event-stream; charset=utf-8");
  headers.emplace_back("Cache-Control", "no-cache");
  // nginx would otherwise collect tokens into pages before it passes them on.
  headers.emplace_back("X-Accel-Buffering", "no");
  if (chunked_) headers.emplace_back("Transfer-Encoding", "chunked");
  for (auto& header : extra) headers.push_back(std::move(header));
  queue_.push_always(reply_head(200, headers));
  comment_at_ = comment_time();
  events_.arm_timer();
  write();
}

void http_sender::send_chunk(std::string data, std::size_t credit) {
  if (chunked_) data = fmt::format("{:x}\r\n{}\r\n", data.size(), data);
  if (queue_.push(data, credit) == push_result::dropped) {
    // Posted, because the reply that calls here is destroyed by what follows.
    asio::post(socket_.get_executor(), [this, alive = events_.hold()] {
      events_.on_send_failed(core::end_reason::slow_reader);
    });
    return;
  }
  write();
}

void http_sender::send_stream_end() {
  if (chunked_) queue_.push_always("0\r\n\r\n");
  comment_at_ = time_point::max();
  reply_ended_ = true;
  write();
}

void http_sender::write() {
  // One write at a time; what is queued meanwhile leaves together in the next.
  if (stopped_ || !queue_.begin_write()) return;
  whole_deadline_ = clock::now() + seconds(config_.client_drain_timeout_s);
  write_rest();
}

void http_sender::write_rest() {
  progress_deadline_ = clock::now() + seconds(config_.client_send_timeout_s);
  events_.arm_timer();
  const auto rest = queue_.writing();
  // write_some and not write: each piece that leaves is progress, which a slow link may make for
  // longer than one such limit.
  socket_.async_write_some(
      asio::buffer(rest.data(), rest.size()),
      [this, alive = events_.hold()](const error_code& ec, std::size_t n) { on_write(ec, n); });
}

void http_sender::on_write(const error_code& ec, std::size_t bytes) {
  if (stopped_) return;
  if (ec) return events_.on_send_failed(why_failed(socket_, ec));
  // Part of it: the limit for progress starts anew, the one for the whole does not.
  if (!queue_.advance(bytes)) return write_rest();
  progress_deadline_ = whole_deadline_ = time_point::max();
  if (comment_at_ != time_point::max()) comment_at_ = comment_time();
  // Each may queue its next delta at once, so write() comes behind.
  for (const std::size_t choice : queue_.credits()) events_.on_delta_sent(choice);
  write();
  // The end may have been queued while this write was in flight.
  if (!queue_.empty() || !reply_ended_) return;
  reply_ended_ = false;
  events_.on_reply_sent();
}

http_sender::time_point http_sender::comment_time() const {
  const double interval = config_.sse_keep_alive_interval_s;  // 0: no comments
  return interval > 0 ? clock::now() + seconds(interval) : time_point::max();
}

http_sender::time_point http_sender::next_deadline() const {
  return std::min({progress_deadline_, whole_deadline_, comment_at_});
}

bool http_sender::is_late(time_point now) const {
  return now >= std::min(progress_deadline_, whole_deadline_);
}

void http_sender::comment_if_due(time_point now, bool idle) {
  if (now < comment_at_) return;
  comment_at_ = comment_time();
  // With bytes waiting the client is slow, not the stream: a comment would only wait behind them.
  if (queue_.empty() && idle) send_chunk(sse_keep_alive, outbound::no_credit);
}

}  // namespace troupe::net
