// One connection of one client, and every way to end it. Owns the socket, and for kill -9 the
// process that holds it. It sends and reads what it is told and knows no protocol.
#pragma once

#include <sys/types.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <span>
#include <string_view>
#include <vector>

#include "tools/client/http_request.hpp"
#include "tools/client/transport.hpp"

namespace troupe::api_client {

namespace asio = boost::asio;

/// All addresses of its host, in the resolver's order; never empty. Throws std::runtime_error.
std::vector<asio::ip::tcp::endpoint> resolve(asio::io_context&, const server_address&);

class connection {
 public:
  explicit connection(asio::io_context& io) : socket_{io} {}
  ~connection() { close(); }
  connection(const connection&) = delete;
  connection& operator=(const connection&) = delete;

  /// Throws boost::system::system_error. A small receive buffer stalls the server after a few
  /// events.
  asio::awaitable<void> open(const asio::ip::tcp::endpoint&, bool small_receive_buffer);
  /// The connection belongs to a process of its own. Whether it could connect shows in the first
  /// read.
  void open_in_process(const asio::ip::tcp::endpoint&);

  asio::awaitable<void> send(std::string_view bytes);
  /// Until the client process, if there is one, has taken all that was sent.
  asio::awaitable<void> taken();
  /// 0 at the end of the stream.
  asio::awaitable<std::size_t> read_some(std::span<char> into);
  /// A pending connect, read or send ends with operation_aborted.
  void interrupt();

  /// `silence` does nothing here; half_close and close_frame leave the receiving side open.
  void end(manner);
  void close();
  bool is_open() const { return socket_.is_open(); }

 private:
  asio::generic::stream_protocol::socket socket_;
  pid_t process_ = 0;
};

}  // namespace troupe::api_client
