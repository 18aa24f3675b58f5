#include "tools/bench/load/load_client.hpp"

#include <fmt/core.h>

#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <stdexcept>

#include "tools/bench/load/stream_reader.hpp"

namespace troupe {

using boost::asio::ip::tcp;
using boost::system::error_code;

class load_endpoint {
 public:
  std::vector<tcp::endpoint> addresses;
};

namespace {

constexpr int slow_receive_buffer = 2048;
constexpr std::size_t slow_read_bytes = 256;

class call_in_progress : public std::enable_shared_from_this<call_in_progress> {
 public:
  call_in_progress(boost::asio::io_context& io, std::shared_ptr<load_endpoint> to, load_call call,
                   std::function<void(load_record)> done)
      : socket_(io),
        deadline_(io),
        pace_(io),
        to_(std::move(to)),
        call_(std::move(call)),
        done_(std::move(done)) {
    record_.slow = call_.slow;
    record_.arrived = call_.arrived;
    on_event_ = [this](const stream_event& event) { take(event); };
  }

  void begin() {
    deadline_.expires_after(std::chrono::duration_cast<steady::duration>(
        std::chrono::duration<double>(call_.timeout_s)));
    deadline_.async_wait([self = shared_from_this()](error_code error) {
      if (!error) self->end("timeout", {});
    });
    connect(0);
  }

 private:
  void connect(std::size_t index) {
    const auto& address = to_->addresses[index];
    error_code error;
    socket_.open(address.protocol(), error);
    if (error) return end("connect", error.message());
    if (call_.slow)
      socket_.set_option(boost::asio::socket_base::receive_buffer_size(slow_receive_buffer), error);
    socket_.async_connect(address, [self = shared_from_this(), index](error_code failed) {
      if (self->over_) return;
      if (!failed) return self->send();
      error_code ignored;
      self->socket_.close(ignored);
      if (index + 1 < self->to_->addresses.size()) return self->connect(index + 1);
      self->end("connect", failed.message());
    });
  }

  void send() {
    error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    boost::asio::async_write(socket_, boost::asio::buffer(call_.head_and_body),
                             [self = shared_from_this()](error_code error, std::size_t) {
                               if (self->over_) return;
                               if (error) return self->end("reset", error.message());
                               if (self->call_.cancel_after == 0u) return self->leave();
                               self->read();
                             });
  }

  void read() {
    const auto room = call_.slow ? slow_read_bytes : bytes_.size();
    socket_.async_read_some(boost::asio::buffer(bytes_.data(), room),
                            [self = shared_from_this()](error_code error, std::size_t count) {
                              if (!self->over_) self->received(error, count);
                            });
  }

  void received(error_code error, std::size_t count) {
    now_ = steady::now();
    try {
      reader_.feed(std::string_view(bytes_.data(), count), on_event_);
    } catch (const std::exception& fault) {
      return end("protocol", fault.what());
    }
    if (over_) return;
    if (call_.cancel_after && record_.pieces >= *call_.cancel_after) return leave();
    if (reader_.complete() || (error == boost::asio::error::eof && reader_.until_close()))
      return finish();
    if (error && failed_) return end("stream_error", {});
    if (error) return end(error == boost::asio::error::eof ? "cut" : "reset", error.message());
    if (!call_.slow) return read();
    pace_.expires_after(
        std::chrono::microseconds(count * 1'000'000 / std::max(call_.slow_bytes_per_s, 1u)));
    pace_.async_wait([self = shared_from_this()](error_code stopped) {
      if (!stopped && !self->over_) self->read();
    });
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
    const auto status = reader_.status();
    if (status != 200) return end(fmt::format("http_{}", status), reader_.body());
    if (failed_) return end("stream_error", {});
    end(finished_ || !reader_.body().empty() ? "" : "cut", {});
  }

  void leave() {
    error_code ignored;
    if (call_.reset) {
      socket_.set_option(boost::asio::socket_base::linger(true, 0), ignored);
    } else {
      // Closing with unread bytes would send a reset instead.
      socket_.non_blocking(true, ignored);
      error_code stopped;
      while (!stopped) socket_.read_some(boost::asio::buffer(bytes_), stopped);
    }
    end("cancelled", {});
  }

  void end(std::string fault, std::string detail) {
    if (over_) return;
    over_ = true;
    record_.ended = steady::now();
    record_.fault = std::move(fault);
    record_.detail = detail.substr(0, 200);
    record_.status = reader_.status();
    record_.body = reader_.body();
    if (!record_.completion_tokens) record_.completion_tokens = record_.pieces;
    error_code ignored;
    socket_.close(ignored);
    deadline_.cancel();
    pace_.cancel();
    done_(std::move(record_));
  }

  tcp::socket socket_;
  boost::asio::steady_timer deadline_, pace_;
  std::shared_ptr<load_endpoint> to_;
  load_call call_;
  std::function<void(load_record)> done_;
  load_record record_;
  stream_reader reader_;
  stream_reader::event_call on_event_;
  steady::time_point now_;
  bool finished_ = false, failed_ = false, over_ = false;
  std::array<char, 16 << 10> bytes_;
};

}  // namespace

server_address parse_url(const std::string& url) {
  constexpr std::string_view scheme = "http://";
  const auto refuse = [&](const char* what) {
    return std::invalid_argument(
        fmt::format("URL '{}': {} (wanted: http://host[:port][/base])", url, what));
  };
  if (!url.starts_with(scheme)) throw refuse("only http is spoken here");
  const auto slash = url.find('/', scheme.size());
  auto authority = url.substr(scheme.size(), slash - scheme.size());
  server_address out;
  out.base = slash == std::string::npos ? "" : url.substr(slash);
  while (out.base.ends_with('/')) out.base.pop_back();
  if (out.base.ends_with("/v1")) out.base.resize(out.base.size() - 3);
  const auto bracket = authority.find(']');
  const auto colon = authority.find(':', bracket == std::string::npos ? 0 : bracket);
  out.port = colon == std::string::npos ? "80" : authority.substr(colon + 1);
  out.host = authority.substr(0, colon);
  if (out.host.starts_with('[') && out.host.ends_with(']'))
    out.host = out.host.substr(1, out.host.size() - 2);
  if (out.host.empty()) throw refuse("no host");
  if (out.port.empty() || out.port.find_first_not_of("0123456789") != std::string::npos ||
      out.port.size() > 5)
    throw refuse("the port is no number");
  if (out.base.find_first_of(" \r\n") != std::string::npos) throw refuse("white space in the path");
  return out;
}

std::string http_bytes(const server_address& server, const std::string& method,
                       const std::string& path, const std::string& api_key,
                       const std::string& body) {
  const bool colons = server.host.find(':') != std::string::npos;
  auto out = fmt::format("{} {}{} HTTP/1.1\r\nHost: {}{}{}:{}\r\nConnection: close\r\n", method,
                         server.base, path, colons ? "[" : "", server.host, colons ? "]" : "",
                         server.port);
  if (!api_key.empty()) out += fmt::format("Authorization: Bearer {}\r\n", api_key);
  if (!body.empty())
    out += fmt::format("Content-Type: application/json\r\nContent-Length: {}\r\n", body.size());
  return out + "\r\n" + body;
}

std::shared_ptr<load_endpoint> resolve(boost::asio::io_context& io, const server_address& server) {
  tcp::resolver resolver(io);
  error_code error;
  const auto found = resolver.resolve(server.host, server.port, error);
  auto out = std::make_shared<load_endpoint>();
  for (const auto& entry : found) out->addresses.push_back(entry.endpoint());
  if (error || out->addresses.empty())
    throw std::runtime_error(fmt::format("{}:{}: {}", server.host, server.port, error.message()));
  return out;
}

void begin_call(boost::asio::io_context& io, std::shared_ptr<load_endpoint> to, load_call call,
                std::function<void(load_record)> done) {
  std::make_shared<call_in_progress>(io, std::move(to), std::move(call), std::move(done))->begin();
}

}  // namespace troupe
