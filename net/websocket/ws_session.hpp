// One WebSocket on /v1/responses: a read pending at all times, one frame in flight, one response at
// a time with a bounded queue behind it. However the socket ends, what runs is cancelled exactly
// once. Lives on its strand.
#pragma once
#include <boost/asio/ip/tcp.hpp>
#include <memory>

#include "net/http/http_message.hpp"
#include "net/server/server_state.hpp"

namespace troupe::net {

/// Takes the socket after a handshake request that the routes let through.
void start_ws_session(std::shared_ptr<server_state>, boost::asio::ip::tcp::socket,
                      const http_request&, const std::string& request_id);

}  // namespace troupe::net
