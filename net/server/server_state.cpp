#include "net/server/server_state.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>

#include "net/server/peer_watch.hpp"

namespace troupe::net {
namespace {

void set_option(int socket, int level, int name, int value) {
  ::setsockopt(socket, level, name, &value, sizeof value);
}

}  // namespace

void server_state::add(const std::shared_ptr<connection>& c) {
  const std::lock_guard lock{mutex_};
  connections_.emplace(c.get(), c);
  ++changes_;
  changed_.notify_all();
}

void server_state::remove(const connection* c) {
  const std::lock_guard lock{mutex_};
  connections_.erase(c);
  ++changes_;
  changed_.notify_all();
}

std::size_t server_state::connections() const {
  const std::lock_guard lock{mutex_};
  return connections_.size();
}

std::vector<std::shared_ptr<connection>> server_state::all() const {
  // Copied under the lock and used outside: a connection removes itself under the same lock.
  std::vector<std::shared_ptr<connection>> strong;
  const std::lock_guard lock{mutex_};
  for (const auto& [key, weak] : connections_)
    if (auto c = weak.lock()) strong.push_back(std::move(c));
  return strong;
}

void server_state::abort_all() {
  for (;;) {
    std::uint64_t seen = 0;
    {
      const std::lock_guard lock{mutex_};
      if (connections_.empty()) return;
      seen = changes_;
    }
    for (const auto& c : all()) c->abort();
    // Each ends on its own strand; one that was added meanwhile is aborted in the next round.
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [&] { return changes_ != seen; });
  }
}

bool server_state::make_room(bool of_bodies) {
  std::shared_ptr<connection> oldest;
  std::int64_t since = 0;
  for (auto& c : all()) {
    // Asked without the connection's strand, so it may have become busy since; close_if_idle looks
    // again on it.
    const auto idle = c->idle_since();
    if (!idle || (oldest && *idle >= since) || (of_bodies && c->body_bytes() == 0)) continue;
    since = *idle;
    oldest = std::move(c);
  }
  if (oldest) oldest->close_if_idle();
  return oldest != nullptr;
}

bool server_state::hold_body(std::atomic<std::uint64_t>& held, std::uint64_t bytes) {
  // Short bodies are not counted: connections have their own limit, and it covers them.
  if (bytes <= long_json) bytes = 0;
  // Unsigned arithmetic wraps, so this also subtracts.
  body_bytes += bytes - held.exchange(bytes);
  return bytes == 0 || body_bytes <= body_bytes_max || make_room(true);
}

void tune(boost::asio::ip::tcp::socket& socket, const runtime_config& config) {
  const int fd = socket.native_handle();
  set_option(fd, IPPROTO_TCP, TCP_NODELAY, 1);  // tokens are small writes, each wanted at once
  // The kernel doubles the value for its own bookkeeping, and no longer lets the buffer grow.
  if (config.send_buffer_bytes > 0)
    set_option(fd, SOL_SOCKET, SO_SNDBUF, static_cast<int>(config.send_buffer_bytes / 2));
  if (config.tcp_keepalive_s > 0) {
    const int seconds = std::max(1, static_cast<int>(config.tcp_keepalive_s));
    set_option(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    // First probe after the interval, then three at a third of it: a peer that has vanished is
    // noticed within twice the interval.
    set_option(fd, IPPROTO_TCP, TCP_KEEPIDLE, seconds);
    set_option(fd, IPPROTO_TCP, TCP_KEEPINTVL, std::max(1, seconds / 3));
    set_option(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
  }
  // For data that is not acknowledged: while some is, the kernel sends no probes.
  if (config.tcp_user_timeout_s > 0)
    set_option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT,
               static_cast<int>(config.tcp_user_timeout_s * 1000));
}

// A write that timed out against a zero window: the peer's kernel answers, its program does not
// read.
core::end_reason why_failed(boost::asio::ip::tcp::socket& socket,
                            const boost::system::error_code& ec) {
  const bool full = ec == boost::asio::error::timed_out && window_is_zero(socket.native_handle());
  return full ? core::end_reason::slow_reader : core::end_reason::client_gone;
}

}  // namespace troupe::net
