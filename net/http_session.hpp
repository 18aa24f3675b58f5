// One HTTP connection: requests one after another, a read pending at all times, one write in flight. Everything that
// can end it ends in finish(), which cancels what runs exactly once. Lives on its socket's strand; hands the socket
// over when a request asks for a WebSocket.
#pragma once
#include <boost/asio/ip/tcp.hpp>
#include <memory>

#include "net/server_state.hpp"

namespace troupe::net {

/// Starts a connection that keeps itself alive until it ends.
void start_http_session(std::shared_ptr<server_state>, boost::asio::ip::tcp::socket);
/// Over the limit of connections: 503 and close.
void refuse_http_session(std::shared_ptr<server_state>, boost::asio::ip::tcp::socket);

}  // namespace troupe::net
