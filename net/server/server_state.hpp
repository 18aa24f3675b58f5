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

/// Undelivered frames of a connection beside what they weigh as text: JSON, log-probabilities above
/// all, is larger.
inline constexpr std::size_t frames_factor = 16;

/// JSON of more bytes is not read on a connection's thread.
inline constexpr std::size_t long_json = 32 * 1024;
/// Bodies longer than that, of all requests together, from their first byte to the end of their
/// answer.
inline constexpr std::uint64_t body_bytes_max = 256ull << 20;
/// Answers of the text tools that wait for their readers, of all connections together.
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
  /// Since when it has waited for its peer with no whole request at work, on the steady clock;
  /// nothing: one is.
  virtual std::optional<std::int64_t> idle_since() const { return std::nullopt; }
  virtual std::uint64_t body_bytes() const { return 0; }  ///< of its request, where that is long
  virtual void give_way() {}  ///< close if still so: another one wants the place
};

/// What answers of the text tools weigh from when they are made until they have left.
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
  worker_thread aside{"troupe.text"};  ///< for slow_reply: it holds up nobody's frames
  worker_thread aside_long{
      "troupe.longtext"};  ///< for those of a long text: they hold up no short one
  worker_thread readers{
      "troupe.json"};  ///< for long JSON: likewise, and no text tool waits for it or it for them
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
  /// Closes the connection that has been idle_since() longest, of those with a long body only or of
  /// all; false when they are at work.
  bool make_room(bool of_bodies);
  /// A connection's body is of so many bytes now. False: there are too many of all, and none can
  /// go.
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

/// What ended a connection that failed with this error: the kernel gives up on a peer that keeps
/// its window shut just as on one that is silent.
core::end_reason why_failed(boost::asio::ip::tcp::socket&, const boost::system::error_code&);

}  // namespace troupe::net
