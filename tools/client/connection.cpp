#include "tools/client/connection.hpp"

#include <fmt/format.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <stdexcept>

#include "tools/client/relay_process.hpp"
#include "tools/client/ws_reader.hpp"

namespace troupe::api_client {
namespace {

using boost::system::error_code;
constexpr int small_buffer_bytes = 2048;

/// Closing with unread bytes would send a reset instead of a FIN.
void drain(int descriptor) {
  std::array<char, 16384> bytes;
  while (recv(descriptor, bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) {
  }
}

}  // namespace

std::vector<asio::ip::tcp::endpoint> resolve(asio::io_context& io, const server_address& at) {
  error_code error;
  const auto found = asio::ip::tcp::resolver{io}.resolve(at.host, std::to_string(at.port), error);
  if (error || found.empty())
    throw std::runtime_error(fmt::format("host '{}': {}", at.host, error.message()));
  std::vector<asio::ip::tcp::endpoint> out;
  for (const auto& entry : found) out.push_back(entry.endpoint());
  return out;
}

asio::awaitable<void> connection::open(const asio::ip::tcp::endpoint& server,
                                       bool small_receive_buffer) {
  error_code ignored;
  socket_.close(ignored);  // of an address that did not answer
  socket_.open(server.protocol());
  // Before the handshake, which tells the peer how much may be under way.
  if (small_receive_buffer)
    socket_.set_option(asio::socket_base::receive_buffer_size{small_buffer_bytes});
  socket_.set_option(asio::ip::tcp::no_delay{true});
  co_await socket_.async_connect(server, asio::use_awaitable);
}

void connection::open_in_process(const asio::ip::tcp::endpoint& server) {
  const auto made = spawn_relay(server.address().to_string(), server.port());
  process_ = made.pid;
  socket_.assign(asio::generic::stream_protocol{AF_UNIX, 0}, made.descriptor);
}

asio::awaitable<void> connection::send(std::string_view bytes) {
  co_await asio::async_write(socket_, asio::buffer(bytes.data(), bytes.size()),
                             asio::use_awaitable);
}

asio::awaitable<void> connection::taken() {
  if (process_ == 0) co_return;
  asio::steady_timer pause{socket_.get_executor()};
  int waiting = 1;
  while (waiting != 0) {
    if (!socket_.is_open() || ioctl(socket_.native_handle(), SIOCOUTQ, &waiting) != 0) co_return;
    pause.expires_after(
        std::chrono::milliseconds(1));  // also when none wait: the process is about to send them
    co_await pause.async_wait(asio::use_awaitable);
  }
}

asio::awaitable<std::size_t> connection::read_some(std::span<char> into) {
  error_code error;
  const auto got = co_await socket_.async_read_some(
      asio::buffer(into.data(), into.size()), asio::redirect_error(asio::use_awaitable, error));
  if (error && error != asio::error::eof) throw boost::system::system_error(error);
  co_return error ? 0 : got;
}

void connection::interrupt() {
  error_code ignored;
  socket_.cancel(ignored);
}

void connection::end(manner how) {
  error_code ignored;
  if (!socket_.is_open()) return;
  switch (how) {
    case manner::fin:
      drain(socket_.native_handle());
      return close();
    case manner::reset:
      socket_.set_option(asio::socket_base::linger{true, 0}, ignored);
      return close();
    case manner::kill_9:
      return close();
    case manner::half_close:
      socket_.shutdown(asio::socket_base::shutdown_send, ignored);
      return;
    case manner::close_frame: {
      const auto frame = client_frame(8, std::string_view{"\x03\xe8", 2});  // 1000, normal closure
      [[maybe_unused]] const auto sent =
          ::send(socket_.native_handle(), frame.data(), frame.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
      return;
    }
    case manner::silence:
      return;
  }
}

void connection::close() {
  // The process first: it would see our end close and leave in good order.
  if (process_ != 0) kill_and_reap(process_);
  process_ = 0;
  error_code ignored;
  socket_.close(ignored);
}

}  // namespace troupe::api_client
