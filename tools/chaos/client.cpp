#include "tools/chaos/client.hpp"

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace troupe::chaos {

using boost::system::error_code;

client::client(const target& to, transport over, question asked, std::optional<kill_plan> plan,
               std::chrono::milliseconds start_after, std::function<void()> changed)
    : target_{to},
      transport_{over},
      question_{std::move(asked)},
      plan_{plan},
      start_after_{start_after},
      changed_{std::move(changed)},
      connection_{to.io},
      reader_{over},
      moment_{to.io},
      linger_{to.io} {}

void client::start() {
  asio::co_spawn(
      target_.io, [self = shared_from_this()] { return self->run(); }, asio::detached);
}

std::string client::failure() const {
  if (struck_ || !over_) return {};
  return error_.empty() ? reader_.error() : error_;
}

asio::awaitable<void> client::run() {
  try {
    if (start_after_.count() > 0) {
      moment_.expires_after(start_after_);
      co_await moment_.async_wait(asio::use_awaitable);
    }
    co_await converse();
  } catch (const std::exception& error) {
    if (!struck_) error_ = error.what();
  }
  if (struck_ && plan_->how == manner::silence && !released_) {
    error_code cancelled;
    linger_.expires_at(clock::time_point::max());
    co_await linger_.async_wait(asio::redirect_error(asio::use_awaitable, cancelled));
  }
  moment_.cancel();
  connection_.close();
  over_ = true;
  if (!struck_) gone_at_ = clock::now();
  changed_();
}

asio::awaitable<void> client::converse() {
  if (plan_ && plan_->how == manner::kill_9)
    connection_.open_in_process(target_.server);
  else
    co_await connection_.open(target_.server, plan_ && plan_->how == manner::silence);
  if (dies_by(moment::milliseconds)) arm();
  co_await send_request();
  if (struck_ && plan_->how == manner::silence) co_return;
  co_await read_answer();
}

/// Time runs from the connect.
void client::arm() {
  moment_.expires_after(std::chrono::milliseconds(plan_->n));
  moment_.async_wait([self = shared_from_this()](error_code cancelled) {
    if (!cancelled && !self->over_) self->strike();
  });
}

asio::awaitable<void> client::send_request() {
  std::size_t allowed = dies_by(moment::bytes_sent) ? plan_->n : std::string::npos;
  const auto pieces = request_pieces(target_.address, transport_, question_);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    while (i > 0 && !struck_ && !reader_.upgraded() && !reader_.over()) co_await read_once();
    if (struck_ || reader_.over()) co_return;
    const auto part = std::string_view{pieces[i]}.substr(0, allowed);
    co_await connection_.send(part);
    const bool last_byte =
        part.size() == allowed && (part.size() < pieces[i].size() || i + 1 == pieces.size());
    if (allowed != std::string::npos) allowed -= part.size();
    if (!last_byte) continue;
    co_await connection_.taken();
    strike();
    co_return;
  }
  if (!dies_by(moment::events_received) || plan_->n > 0 || struck_) co_return;
  co_await connection_.taken();
  strike();
}

asio::awaitable<void> client::read_answer() {
  // A half-closed client and one that sent a close frame read on until the server closes, and throw
  // away what comes.
  while (connection_.is_open() && (struck_ || !reader_.over()) &&
         !(struck_ && plan_->how == manner::silence))
    co_await read_once();
}

asio::awaitable<void> client::read_once() {
  std::array<char, 16384> bytes;
  const auto got = co_await connection_.read_some(bytes);
  if (struck_) {
    if (got == 0) connection_.close();
    co_return;
  }
  const bool first = reader_.events() == 0;
  if (got == 0)
    reader_.end_of_stream();
  else
    reader_.feed({bytes.data(), got});
  if (std::string ping; reader_.take_ping(ping))
    co_await connection_.send(api_client::client_frame(10, ping));
  if (first && reader_.events() > 0) changed_();
  if (dies_by(moment::events_received) && !struck_ && !reader_.over() &&
      reader_.events() >= plan_->n)
    strike();
}

void client::strike() {
  if (struck_ || over_ || reader_.over()) return;
  struck_ = true;
  gone_at_ = clock::now();
  connection_.end(plan_->how);
  if (plan_->how == manner::silence) connection_.interrupt();
  changed_();
}

bool client::release() {
  if (over_ || released_) return false;
  released_ = true;
  gone_at_ = clock::now();
  linger_.cancel();
  connection_.close();
  return true;
}

}  // namespace troupe::chaos
