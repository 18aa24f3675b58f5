// The server under test, where this program starts it itself: from its command to its exit code.
// Owned by main. It reads both outputs until they end, so that the server never waits for a reader.
#pragma once

#include <sys/types.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <chrono>
#include <deque>
#include <nlohmann/json.hpp>
#include <string>

namespace troupe::chaos {

namespace asio = boost::asio;

class server_process {
 public:
  server_process(asio::io_context& io, const std::string& command);
  ~server_process();
  server_process(const server_process&) = delete;
  server_process& operator=(const server_process&) = delete;

  /// Runs the I/O until the line with "event":"ready"; throws std::runtime_error with the last
  /// lines otherwise. Returns the URL.
  std::string wait_ready(std::chrono::seconds timeout);
  /// SIGTERM, and its exit code: 128 + N where signal N ended it, -1 when it had to be killed.
  int stop(std::chrono::seconds timeout);

  pid_t pid() const { return pid_; }
  /// The events "starting" and "ready" in one object: pool_tokens, pool_bytes, block_size,
  /// effective_context, url...
  const nlohmann::json& facts() const { return facts_; }
  std::string last_lines() const;

 private:
  struct pipe_end {
    asio::posix::stream_descriptor descriptor;
    std::string unread;
    bool open = true;
  };
  void read_from(pipe_end&);
  void take_line(const std::string&);
  bool reaped();

  asio::io_context& io_;
  pipe_end out_, err_;
  pid_t pid_ = 0;
  int status_ = 0;
  std::array<char, 4096> bytes_[2];
  nlohmann::json facts_ = nlohmann::json::object();
  std::deque<std::string> lines_;
};

}  // namespace troupe::chaos
