#include "tests/net/test_client.hpp"

#include <linux/filter.h>
#include <poll.h>
#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <stdexcept>
#include <thread>

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
  read_until("\r\n\r\n");
  reply r;
  const std::size_t end = in_.find("\r\n\r\n");
  r.head = in_.substr(0, end + 2);
  in_.erase(0, end + 4);
  r.status = std::stoi(r.head.substr(9, 3));
  if (is_head || r.status == 204 || r.status == 101 || r.status == 100) return r;
  if (r.header("Transfer-Encoding") == "chunked") {
    for (;;) {
      read_until("\r\n");
      const std::size_t line = in_.find("\r\n");
      const std::size_t size = std::stoul(in_.substr(0, line), nullptr, 16);
      while (in_.size() < line + 2 + size + 2)
        if (!fill()) throw std::runtime_error("closed inside a chunk");
      r.body += in_.substr(line + 2, size);
      in_.erase(0, line + 2 + size + 2);
      if (size == 0) return r;
    }
  }
  const std::string length = r.header("Content-Length");
  if (length.empty()) {
    while (fill()) {
    }
    r.body = std::exchange(in_, "");
    return r;
  }
  while (in_.size() < std::stoul(length))
    if (!fill()) throw std::runtime_error("closed inside a body");
  r.body = in_.substr(0, std::stoul(length));
  in_.erase(0, std::stoul(length));
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
  std::string frame(1, static_cast<char>(0x80 | opcode));
  if (payload.size() < 126) {
    frame += static_cast<char>(0x80 | payload.size());
  } else if (payload.size() < 65536) {
    frame += static_cast<char>(0x80 | 126);
    frame += static_cast<char>(payload.size() >> 8);
    frame += static_cast<char>(payload.size() & 255);
  } else {
    frame += static_cast<char>(0x80 | 127);
    for (int shift = 56; shift >= 0; shift -= 8)
      frame += static_cast<char>((payload.size() >> shift) & 255);
  }
  frame += std::string(4, '\0');  // a mask of zeros is a mask
  send(frame + payload);
}

ws_frame test_client::read_ws() {
  const auto need = [&](std::size_t n) {
    while (in_.size() < n)
      if (!fill()) throw std::runtime_error("closed inside a frame");
  };
  need(2);
  ws_frame f;
  f.opcode = in_[0] & 15;
  std::size_t size = in_[1] & 127, at = 2;
  const std::size_t length_bytes = size == 126 ? 2 : size == 127 ? 8 : 0;
  need(at + length_bytes);
  if (length_bytes > 0) size = 0;
  for (std::size_t i = 0; i < length_bytes; ++i)
    size = size * 256 + static_cast<unsigned char>(in_[at + i]);
  at += length_bytes;
  need(at + size);
  f.payload = in_.substr(at, size);
  in_.erase(0, at + size);
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
  for (std::size_t at = 0; at < body.size();) {
    const std::size_t end = body.find("\n\n", at);
    if (end == body.npos) break;
    const std::string event = body.substr(at, end - at);
    const std::size_t data = event.find("data: ");
    if (data != event.npos) all.push_back(event.substr(data + 6));
    at = end + 2;
  }
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
