// Whole HTTP exchanges one after another on a kept connection: metrics pages, model cards, the
// request for the pool. Owned by whoever asks. Opens the connection anew where the server has
// closed it in between.
#pragma once

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <memory>
#include <string>

#include "tools/chaos/client.hpp"
#include "tools/client/answer_reader.hpp"
#include "tools/client/connection.hpp"

namespace troupe::chaos {

class http_exchange {
 public:
  explicit http_exchange(const client_setting& setting) : setting_{setting} {}

  /// The reply, read to its end. Throws std::runtime_error: unreachable, cut or not within the
  /// time.
  asio::awaitable<answer_reader> ask(std::string request,
                                     std::chrono::milliseconds timeout = std::chrono::seconds(30));

 private:
  asio::awaitable<answer_reader> ask_once(const std::string& request);

  const client_setting& setting_;
  std::unique_ptr<connection> connection_;
};

}  // namespace troupe::chaos
