#include "tools/chaos/server_process.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <stdexcept>
#include <system_error>
#include <thread>

namespace troupe::chaos {
namespace {

constexpr std::size_t kept_lines = 20;

}  // namespace

server_process::server_process(asio::io_context& io, const std::string& command)
    : io_{io},
      out_{asio::posix::stream_descriptor{io}, {}},
      err_{asio::posix::stream_descriptor{io}, {}} {
  int out[2], err[2];
  if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0)
    throw std::system_error(errno, std::generic_category(), "pipes for the server");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out[1], 1);
  posix_spawn_file_actions_adddup2(&actions, err[1], 2);
  posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  // exec: the process is the server itself, not a shell around it.
  std::string shell = "sh", option = "-c", line = "exec " + command;
  char* arguments[] = {shell.data(), option.data(), line.data(), nullptr};
  const int failed = posix_spawn(&pid_, "/bin/sh", &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(out[1]);
  ::close(err[1]);
  out_.descriptor.assign(out[0]);
  err_.descriptor.assign(err[0]);
  if (failed != 0) throw std::system_error(failed, std::generic_category(), "the server's process");
  read_from(out_);
  read_from(err_);
}

server_process::~server_process() {
  if (pid_ != 0 && !reaped()) {
    ::kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
}

void server_process::read_from(pipe_end& from) {
  auto& bytes = bytes_[&from == &err_];
  from.descriptor.async_read_some(asio::buffer(bytes),
                                  [this, &from, &bytes](auto error, std::size_t got) {
                                    if (error) {
                                      from.open = false;
                                      return;
                                    }
                                    from.unread.append(bytes.data(), got);
                                    for (auto end = from.unread.find('\n');
                                         end != std::string::npos; end = from.unread.find('\n')) {
                                      take_line(from.unread.substr(0, end));
                                      from.unread.erase(0, end + 1);
                                    }
                                    read_from(from);
                                  });
}

void server_process::take_line(const std::string& line) {
  lines_.push_back(line);
  if (lines_.size() > kept_lines) lines_.pop_front();
  if (facts_.contains("url") || line.find("\"event\"") == std::string::npos) return;
  const auto event = nlohmann::json::parse(line, nullptr, false);
  if (event.is_object() &&
      (event.value("event", "") == "starting" || event.value("event", "") == "ready"))
    facts_.update(event);
}

std::string server_process::last_lines() const {
  std::string all;
  for (const auto& line : lines_) all += "\n  " + line;
  return all;
}

std::string server_process::wait_ready(std::chrono::seconds timeout) {
  const auto until = std::chrono::steady_clock::now() + timeout;
  while (!facts_.contains("url")) {
    io_.run_one_for(std::chrono::milliseconds(50));
    io_.restart();
    if (!out_.open || reaped()) {
      // Its output ends a little before the process does; -1: it lives on without one.
      for (const auto soon = std::chrono::steady_clock::now() + std::chrono::seconds(1);
           !reaped() && std::chrono::steady_clock::now() < soon;)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      throw std::runtime_error(fmt::format("the server ended before it was ready (status {}):{}",
                                           reaped() ? WEXITSTATUS(status_) : -1, last_lines()));
    }
    if (std::chrono::steady_clock::now() > until)
      throw std::runtime_error(
          fmt::format("the server printed no line with \"event\":\"ready\" and \"url\" within {} s "
                      "(does its command "
                      "have --json?):{}",
                      timeout.count(), last_lines()));
  }
  return facts_["url"].get<std::string>();
}

/// True once the process has ended; `status_` then says how.
bool server_process::reaped() {
  if (pid_ == 0) return true;
  if (waitpid(pid_, &status_, WNOHANG) != pid_) return false;
  pid_ = 0;
  return true;
}

int server_process::stop(std::chrono::seconds timeout) {
  if (pid_ != 0) ::kill(pid_, SIGTERM);
  const auto until = std::chrono::steady_clock::now() + timeout;
  while (!reaped()) {
    if (std::chrono::steady_clock::now() > until) return -1;  // the destructor kills it
    if (io_.run_one_for(std::chrono::milliseconds(5)) == 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    io_.restart();
  }
  return WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
}

}  // namespace troupe::chaos
