#include "tools/bench/load/load_client.hpp"

#include <fmt/core.h>

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <stdexcept>

#include "tools/bench/load/stream_event.hpp"
#include "tools/client/connection.hpp"
#include "tools/client/http_reader.hpp"
#include "tools/client/sse_reader.hpp"

namespace troupe {

namespace asio = boost::asio;
using api_client::manner;

class load_endpoint {
 public:
  std::vector<asio::ip::tcp::endpoint> addresses;
};

namespace {

constexpr std::size_t slow_read_bytes = 256;
constexpr std::size_t body_bytes_max = 64 << 10;

class call_in_progress : public std::enable_shared_from_this<call_in_progress> {
 public:
  call_in_progress(asio::io_context& io, std::shared_ptr<load_endpoint> to, load_call call,
                   std::function<void(load_record)> done)
      : io_(io),
        connection_(io),
        deadline_(io),
        pace_(io),
        to_(std::move(to)),
        call_(std::move(call)),
        done_(std::move(done)) {
    record_.slow = call_.slow;
    record_.arrived = call_.arrived;
    // Made once and not for each read; they live as long as `this`.
    on_body_ = [this](std::string_view piece) { take_body(piece); };
    on_event_ = [this](std::string_view data) { take(read_event(data)); };
  }

  void begin() {
    deadline_.expires_after(std::chrono::duration_cast<steady::duration>(
        std::chrono::duration<double>(call_.timeout_s)));
    deadline_.async_wait([self = shared_from_this()](boost::system::error_code error) {
      if (!error) self->end("timeout", {});
    });
    asio::co_spawn(
        io_, [self = shared_from_this()] { return self->run(); }, asio::detached);
  }

 private:
  // What ends it from outside (its deadline) closes the connection, and what is awaited here then
  // fails; `end` takes the first reason only.
  asio::awaitable<void> run() {
    try {
      co_await connect();
      socket_fault_ = "reset";
      co_await connection_.send(call_.head_and_body);
      if (call_.cancel_after == 0u) co_return leave();
      while (!over_) co_await read();
    } catch (const boost::system::system_error& error) {
      failed_ ? end("stream_error", {}) : end(socket_fault_, error.code().message());
    } catch (const std::exception& fault) {
      end("protocol", fault.what());
    }
  }

  asio::awaitable<void> connect() {
    for (std::size_t i = 0;; ++i) try {
        co_await connection_.open(to_->addresses[i], call_.slow);
        co_return;
      } catch (const boost::system::system_error&) {
        if (over_ || i + 1 == to_->addresses.size()) throw;
      }
  }

  asio::awaitable<void> read() {
    const auto room = call_.slow ? slow_read_bytes : bytes_.size();
    const auto count = co_await connection_.read_some(std::span(bytes_).first(room));
    now_ = steady::now();
    if (over_) co_return;
    unread_.append(bytes_.data(), count);
    if (count == 0)
      reply_.end_of_stream();
    else
      reply_.feed(unread_, on_body_);
    if (call_.cancel_after && record_.pieces >= *call_.cancel_after) co_return leave();
    if (reply_.complete()) co_return finish();
    if (count == 0)
      co_return end(failed_ ? "stream_error" : "cut", "closed before the end of the answer");
    if (!call_.slow) co_return;
    pace_.expires_after(
        std::chrono::microseconds(count * 1'000'000 / std::max(call_.slow_bytes_per_s, 1u)));
    co_await pace_.async_wait(asio::use_awaitable);
  }

  void take_body(std::string_view piece) {
    if (reply_.header("content-type").starts_with("text/event-stream"))
      return events_.feed(piece, on_event_);
    record_.body.append(
        piece.substr(0, body_bytes_max - std::min(body_bytes_max, record_.body.size())));
  }

  void take(const stream_event& event) {
    if (event.prompt_tokens) record_.prompt_tokens = *event.prompt_tokens;
    if (event.completion_tokens) record_.completion_tokens = *event.completion_tokens;
    if (event.tokens_per_s) record_.server_tokens_per_s = *event.tokens_per_s;
    finished_ |= event.finished || event.done;
    failed_ |= event.error;
    if (!event.text) return;
    if (record_.pieces++ == 0)
      record_.first = now_;
    else
      record_.gaps_ms.push_back(
          std::chrono::duration<float, std::milli>(now_ - record_.last).count());
    record_.last = now_;
  }

  void finish() {
    const auto status = reply_.status();
    if (status != 200) return end(fmt::format("http_{}", status), record_.body);
    if (failed_) return end("stream_error", {});
    end(finished_ || !record_.body.empty() ? "" : "cut", {});
  }

  void leave() {
    connection_.end(call_.reset ? manner::reset : manner::fin);
    end("cancelled", {});
  }

  void end(std::string fault, const std::string& detail) {
    if (over_) return;
    over_ = true;
    record_.ended = steady::now();
    record_.fault = std::move(fault);
    record_.detail = detail.substr(0, 200);
    record_.status = reply_.status();
    if (!record_.completion_tokens) record_.completion_tokens = record_.pieces;
    connection_.close();
    deadline_.cancel();
    pace_.cancel();
    done_(std::move(record_));
  }

  asio::io_context& io_;
  api_client::connection connection_;
  asio::steady_timer deadline_, pace_;
  std::shared_ptr<load_endpoint> to_;
  load_call call_;
  std::function<void(load_record)> done_;
  load_record record_;
  api_client::http_reader reply_;
  api_client::sse_reader events_;
  api_client::http_reader::body_call on_body_;
  api_client::sse_reader::event_call on_event_;
  const char* socket_fault_ = "connect";  // what an error of the socket means at this moment
  steady::time_point now_;                // when the bytes under way were read
  bool finished_ = false, failed_ = false, over_ = false;
  std::string unread_;
  std::array<char, 16 << 10> bytes_;
};

}  // namespace

std::shared_ptr<load_endpoint> resolve(asio::io_context& io,
                                       const api_client::server_address& server) {
  return std::make_shared<load_endpoint>(load_endpoint{api_client::resolve(io, server)});
}

void begin_call(asio::io_context& io, std::shared_ptr<load_endpoint> to, load_call call,
                std::function<void(load_record)> done) {
  std::make_shared<call_in_progress>(io, std::move(to), std::move(call), std::move(done))->begin();
}

}  // namespace troupe
