// What the connections of one server share: I/O context, limits, who is connected. Every connection
// holds it by shared_ptr, so a strand outlives the last object on it. Thread-safe.
#pragma once
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "net/http/http_routes.hpp"
#include "net/server/bridge.hpp"
#include "net/server/worker_thread.hpp"

namespace troupe::net {

/// Bytes of undelivered frames for each byte of text that may wait: JSON is larger than its text,
/// log-probabilities above all.
inline constexpr std::size_t frames_factor = 16;

/// JSON of more bytes is parsed on a worker thread: a megabyte takes milliseconds, in which the
/// other connections of an I/O thread would wait for their frames.
inline constexpr std::size_t long_json = 32 * 1024;
/// Bytes of the bodies longer than that, of all requests together; each counts from its first byte
/// to the end of its answer.
inline constexpr std::uint64_t body_bytes_max = 256ull << 20;
/// Bytes of the text tools' answers that have not left yet, of all connections together.
inline constexpr std::uint64_t tool_bytes_max = 64ull << 20;

inline std::chrono::steady_clock::duration seconds(double s) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(s));
}

/// One socket, as the server sees it. Both calls may come from any thread and only post.
class connection : public event_receiver {
 public:
  virtual void drain() = 0;  ///< close when nothing is in progress
  virtual void abort() = 0;  ///< close now; generations end as shutdown
  /// Idle since, on the steady clock; empty while a whole request is being served.
  virtual std::optional<std::int64_t> idle_since() const { return std::nullopt; }
  virtual std::uint64_t body_bytes() const { return 0; }  ///< of its request, where that is long
  virtual void close_if_idle() {}                         ///< to make room for another connection
};

/// Counts the bytes of a text tool's answer from when it is made until it has left.
class held_bytes {
 public:
  held_bytes(std::atomic<std::uint64_t>& sum, std::uint64_t bytes) : sum_{sum}, bytes_{bytes} {
    sum_ += bytes_;
  }
  ~held_bytes() { sum_ -= bytes_; }
  held_bytes(const held_bytes&) = delete;
  held_bytes& operator=(const held_bytes&) = delete;

 private:
  std::atomic<std::uint64_t>& sum_;
  std::uint64_t bytes_;
};

/// Requests in progress and replies being written, counted by their connections. Any thread.
class work_count {
 public:
  work_count& operator++() {
    ++count_;
    return *this;
  }
  work_count& operator--() {
    if (--count_ == 0 && when_none_) when_none_();
    return *this;
  }
  operator std::uint32_t() const { return count_; }
  /// Before the first connection.
  void when_none(std::function<void()> call) { when_none_ = std::move(call); }

 private:
  std::atomic<std::uint32_t> count_ = 0;
  std::function<void()> when_none_;
};

struct server_state {
  /// How many threads it starts.
  static constexpr std::uint32_t worker_threads = 3;

  /// Throws thread_error.
  server_state(const runtime_config& c, core::generation_engine& e, metrics& m) : routes{c, e, m} {}

  boost::asio::io_context io;
  // Apart, so that short texts never wait for long ones, nor either for long JSON.
  worker_thread tool_worker{"troupe.text"};           ///< for slow_reply
  worker_thread long_tool_worker{"troupe.longtext"};  ///< for slow_reply of a body above long_json
  worker_thread json_worker{"troupe.json"};           ///< for JSON above long_json
  route_context routes;
  std::atomic<std::uint32_t> websockets = 0;
  work_count busy;
  std::atomic<std::uint64_t> tool_bytes = 0;  ///< held_bytes
  std::atomic<std::uint64_t> body_bytes = 0;

  void add(const std::shared_ptr<connection>&);
  void remove(const connection*);
  std::size_t connections() const;
  /// Aborts all connections, and those that come of them (a WebSocket of its upgrade), until none
  /// is left. Not from an I/O thread.
  void abort_all();
  std::vector<std::shared_ptr<connection>> all() const;
  /// Closes the connection that has been idle longest (`of_bodies`: of those that hold a long
  /// body); false when none is idle.
  bool make_room(bool of_bodies);
  /// `held`: what a connection's body counts; it has `bytes` now. False: all bodies together are
  /// over the limit, and no idle one could be closed.
  bool hold_body(std::atomic<std::uint64_t>& held, std::uint64_t bytes);

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t changes_ = 0;  ///< of connections_: how often one came or went
  std::unordered_map<const connection*, std::weak_ptr<connection>> connections_;
};

/// Options of an accepted socket: no delay, keepalive, how long silence may last, how much it may
/// buffer. Errors are ignored: the peer may have left already.
void tune(boost::asio::ip::tcp::socket&, const runtime_config&);

/// What ended a connection that failed with this error. The kernel reports the same time-out for a
/// silent peer and for one that acknowledges but keeps its window at zero; the latter is a slow
/// reader.
core::end_reason why_failed(boost::asio::ip::tcp::socket&, const boost::system::error_code&);

}  // namespace troupe::net
