// The messages of one WebSocket between its frames and what they ask for: in order, a long one read
// as JSON on the thread for that. Owned by the connection and used on its strand; who pushes stops
// at full(). Never touches a socket.
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
  /// `take` gets each message; `resumed` is called when a long one has been read.
  ws_messages(server_state&, std::function<void(ws_message)> take, std::function<void()> resumed);

  void push(std::string text);
  /// Hands over what can be. `owner` holds this object while a long message is read.
  void run(const std::shared_ptr<connection>& owner);
  /// Nobody waits any more: hands over nothing from now on.
  void drop();

  bool reading() const { return reading_ && !dropped_; }  ///< a long one is being read
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
