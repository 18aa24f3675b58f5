// An I/O context that one thread of its own runs: for work that must not delay the connections.
// What is posted is done in order. join() finishes all of it; the destructor drops what has not
// begun.
#pragma once
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include "config/threads/joined_thread.hpp"

namespace troupe::net {

class worker_thread : public boost::asio::io_context {
 public:
  /// Throws thread_error.
  explicit worker_thread(const char* name)
      : boost::asio::io_context(1), work_(get_executor()), thread_(name, [this] { run(); }) {}
  ~worker_thread() {
    stop();
    thread_.join();
  }
  void join() {
    work_.reset();
    thread_.join();
  }

 private:
  boost::asio::executor_work_guard<executor_type> work_;
  joined_thread thread_;
};

}  // namespace troupe::net
