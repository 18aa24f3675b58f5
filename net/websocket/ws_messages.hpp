// The messages of one WebSocket between its frames and their requests: parsed in the order they
// came, a long one on a worker thread. Owned by the connection and used on its strand; it stops
// reading frames while this is full(). Never touches a socket.
#pragma once
#include <atomic>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "net/server/server_state.hpp"

namespace troupe::net {

class ws_messages {
 public:
  /// `take` gets each parsed message; `resumed` is called when a long one has been parsed.
  ws_messages(server_state&, std::function<void(ws_message)> take, std::function<void()> resumed);

  void push(std::string text);
  /// Parses and hands over messages up to the next long one. `owner` keeps this object alive while
  /// that is parsed on the worker.
  void run(const std::shared_ptr<connection>& owner);
  /// The connection takes no more messages: hands over nothing from now on.
  void drop();

  bool reading() const { return reading_ && !dropped_; }  ///< a long one is on the worker
  bool full() const;

 private:
  server_state& state_;
  std::function<void(ws_message)> take_;
  std::function<void()> resumed_;
  std::deque<std::string> waiting_;
  std::size_t bytes_ = 0;
  bool reading_ = false;
  std::atomic<bool> dropped_ = false;
};

}  // namespace troupe::net
