#include "tests/net/test_client.hpp"

#include <linux/filter.h>
#include <poll.h>
#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <stdexcept>
#include <thread>

#include "tools/client/http_reader.hpp"
#include "tools/client/sse_reader.hpp"

namespace troupe::net::test {

namespace asio = boost::asio;

namespace {

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

std::string reply::header(const std::string& name) const {
  const std::string wanted = "\r\n" + lower(name) + ": ";
  const std::size_t at = lower(head).find(wanted);
  if (at == head.npos) return "";
  const std::size_t from = at + wanted.size();
  return head.substr(from, head.find("\r\n", from) - from);
}

int ws_frame::close_code() const {
  if (payload.size() < 2) return 0;
  return static_cast<unsigned char>(payload[0]) * 256 + static_cast<unsigned char>(payload[1]);
}

test_client::test_client(std::uint16_t port, int receive_buffer) {
  socket_.open(asio::ip::tcp::v4());
  if (receive_buffer > 0)
    socket_.set_option(asio::socket_base::receive_buffer_size{receive_buffer});
  socket_.connect({asio::ip::make_address("127.0.0.1"), port});
}

void test_client::send(const std::string& bytes) {
  asio::write(socket_, asio::buffer(bytes));
}

bool test_client::fill() {
  pollfd p{socket_.native_handle(), POLLIN, 0};
  if (::poll(&p, 1, 20000) <= 0)
    throw std::runtime_error("no answer within 20 seconds; so far: " + in_);
  char buffer[16384];
  const ssize_t n = ::recv(socket_.native_handle(), buffer, sizeof buffer, 0);
  if (n <= 0) return false;
  in_.append(buffer, static_cast<std::size_t>(n));
  return true;
}

std::string test_client::read_until(const std::string& text) {
  while (in_.find(text) == in_.npos)
    if (!fill()) throw std::runtime_error("closed before '" + text + "'; so far: " + in_);
  return in_;
}

reply test_client::read_reply(bool is_head) {
  api_client::http_reader reader{is_head};
  reply r;
  const auto take = [&r](std::string_view piece) { r.body += piece; };
  for (reader.feed(in_, take); !reader.complete(); reader.feed(in_, take)) {
    if (fill()) continue;
    reader.end_of_stream();
    if (!reader.complete()) throw std::runtime_error("closed inside a reply; so far: " + r.body);
  }
  r.status = reader.status();
  for (const auto& [name, value] : reader.headers()) r.head += "\r\n" + name + ": " + value;
  r.head += "\r\n";
  return r;
}

std::string test_client::read_to_end() {
  while (fill()) continue;
  return std::exchange(in_, "");
}

std::size_t test_client::read_some(std::size_t most, std::chrono::milliseconds within) {
  pollfd p{socket_.native_handle(), POLLIN, 0};
  if (::poll(&p, 1, static_cast<int>(within.count())) <= 0) return 0;
  std::string buffer(most, '\0');
  const ssize_t n = ::recv(socket_.native_handle(), buffer.data(), most, 0);
  return n > 0 ? static_cast<std::size_t>(n) : 0;
}

bool test_client::closed_by_peer() {
  try {
    while (fill()) {
    }
    return true;
  } catch (const std::runtime_error&) {
    return false;
  }
}

void test_client::close() {
  socket_.close();
}

void test_client::reset() {
  socket_.set_option(asio::socket_base::linger{true, 0});
  socket_.close();
}

void test_client::fall_silent() {
  sock_filter drop_all[] = {{BPF_RET | BPF_K, 0, 0, 0}};
  const sock_fprog program{1, drop_all};
  if (::setsockopt(socket_.native_handle(), SOL_SOCKET, SO_ATTACH_FILTER, &program,
                   sizeof program) != 0)
    throw std::runtime_error("the kernel takes no packet filter");
}

void test_client::send_some(const std::string& bytes, std::chrono::milliseconds within) {
  const auto end = std::chrono::steady_clock::now() + within;
  socket_.non_blocking(true);
  for (std::size_t at = 0; at < bytes.size() && std::chrono::steady_clock::now() < end;) {
    boost::system::error_code ec;
    at += socket_.write_some(boost::asio::buffer(bytes.data() + at, bytes.size() - at), ec);
    if (ec) std::this_thread::sleep_for(std::chrono::milliseconds{5});
  }
  socket_.non_blocking(false);
}

bool test_client::try_send(const std::string& bytes) {
  boost::system::error_code ec;
  asio::write(socket_, asio::buffer(bytes), ec);
  return !ec;
}

void test_client::half_close() {
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send);
}

reply test_client::upgrade(const std::string& more_headers) {
  send(
      "GET /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: "
      "websocket\r\n"
      "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n" +
      more_headers + "\r\n");
  return read_reply();
}

void test_client::send_ws(const std::string& payload, int opcode) {
  send(api_client::client_frame(static_cast<std::uint8_t>(opcode), payload));
}

ws_frame test_client::read_ws() {
  ws_frame f;
  while (!frames_.next(in_, f))
    if (!fill()) throw std::runtime_error("closed inside a frame");
  return f;
}

std::string post(const std::string& path, const std::string& json,
                 const std::string& more_headers) {
  return "POST " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n" +
         more_headers + "Content-Length: " + std::to_string(json.size()) + "\r\n\r\n" + json;
}

std::string get(const std::string& path, const std::string& more_headers,
                const std::string& method) {
  return method + " " + path + " HTTP/1.1\r\nHost: 127.0.0.1\r\n" + more_headers + "\r\n";
}

std::vector<std::string> sse_data(const std::string& body) {
  std::vector<std::string> all;
  api_client::sse_reader{}.feed(body, [&](std::string_view data) { all.emplace_back(data); });
  return all;
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

namespace {

runtime_config on_any_port(runtime_config config) {
  config.port = 0;
  return config;
}

}  // namespace

running_server::running_server(runtime_config config)
    : server_under_test{on_any_port(std::move(config)), engine, counters},
      port{server_under_test.start()} {}

}  // namespace troupe::net::test
