#include "tools/client/http_exchange.hpp"

#include <fmt/format.h>

#include <array>
#include <boost/asio/steady_timer.hpp>
#include <stdexcept>

namespace troupe::api_client {

asio::awaitable<answer_reader> http_exchange::ask(std::string request,
                                                  std::chrono::milliseconds timeout) {
  asio::steady_timer deadline{target_.io, timeout};
  const auto late = std::make_shared<bool>(false);
  const bool kept = connection_ && connection_->is_open();
  deadline.async_wait([this, late](boost::system::error_code cancelled) {
    if (cancelled) return;
    *late = true;
    if (connection_) connection_->close();
  });
  std::string why;
  // A kept connection may have been closed by its keep-alive limit: that is no failure of the
  // server.
  for (int attempt = kept ? 0 : 1; attempt < 2; ++attempt) try {
      auto reply = co_await ask_once(request);
      if (reply.complete() || reply.status() > 0) co_return reply;
      why = reply.error();
      connection_.reset();
    } catch (const boost::system::system_error& error) {
      why = *late ? fmt::format("no answer within {} ms", timeout.count()) : error.code().message();
      connection_.reset();
      if (*late) break;
    }
  const auto& at = target_.address;
  throw std::runtime_error(fmt::format("the server at http://{}:{} does not answer '{}': {}",
                                       at.host, at.port, request.substr(0, request.find(" HTTP/")),
                                       why));
}

asio::awaitable<answer_reader> http_exchange::ask_once(const std::string& request) {
  if (!connection_ || !connection_->is_open()) {
    connection_ = std::make_unique<connection>(target_.io);
    co_await connection_->open(target_.server, false);
  }
  co_await connection_->send(request);
  answer_reader reply{transport::plain};
  std::array<char, 16384> bytes;
  while (!reply.over()) {
    const auto got = co_await connection_->read_some(bytes);
    if (got == 0) {
      reply.end_of_stream();
      connection_->close();
    } else {
      reply.feed({bytes.data(), got});
    }
  }
  co_return reply;
}

}  // namespace troupe::api_client
