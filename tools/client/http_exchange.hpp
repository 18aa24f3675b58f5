// Whole HTTP exchanges one after another on a kept connection: metrics pages, model cards, the
// request for the pool. Owned by whoever asks. Opens the connection anew where the server has
// closed it in between.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "tools/client/answer_reader.hpp"
#include "tools/client/connection.hpp"

namespace troupe::api_client {

/// The server that all clients of a run talk to, and the loop they run on.
struct target {
  asio::io_context& io;
  asio::ip::tcp::endpoint server;
  server_address address;
};

class http_exchange {
 public:
  explicit http_exchange(const target& to) : target_{to} {}

  /// The reply, read to its end. Throws std::runtime_error: unreachable, cut or not within the
  /// time.
  asio::awaitable<answer_reader> ask(std::string request,
                                     std::chrono::milliseconds timeout = std::chrono::seconds(30));

 private:
  asio::awaitable<answer_reader> ask_once(const std::string& request);

  const target& target_;
  std::unique_ptr<connection> connection_;
};

}  // namespace troupe::api_client
