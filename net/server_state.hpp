// What the connections of one server share: I/O context, limits, who is connected. Every connection holds it by
// shared_ptr, so a strand outlives the last object on it. Thread-safe.
#pragma once
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/thread_pool.hpp>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "net/bridge.hpp"
#include "net/http_routes.hpp"

namespace troupe::net {

/// One socket, as the server sees it. Both calls may come from any thread and only post.
class connection : public event_receiver {
 public:
  virtual void drain() = 0;   ///< close when nothing is in progress
  virtual void abort() = 0;   ///< close now; generations end as shutdown
};

struct server_state {
  server_state(const runtime_config& c, core::generation_engine& e, metrics& m) : routes{c, e, m} {}

  boost::asio::io_context io;
  boost::asio::thread_pool aside{1};       ///< for slow_reply: a long text holds up nobody's frames
  route_context routes;
  std::atomic<std::uint32_t> websockets = 0;
  std::atomic<std::uint32_t> busy = 0;     ///< requests in progress, replies being written

  void add(const std::shared_ptr<connection>&);
  void remove(const connection*);
  std::size_t connections() const;
  std::vector<std::shared_ptr<connection>> all() const;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<const connection*, std::weak_ptr<connection>> connections_;
};

/// Options of an accepted socket: no delay, keepalive, how long silence may last, how much it may buffer. Errors are
/// ignored: the peer may have left already.
void tune(boost::asio::ip::tcp::socket&, const runtime_config&);

/// What ended a connection that failed with this error: the kernel gives up on a peer that keeps its window shut just
/// as on one that is silent.
core::end_reason why_failed(boost::asio::ip::tcp::socket&, const boost::system::error_code&);

}  // namespace troupe::net
