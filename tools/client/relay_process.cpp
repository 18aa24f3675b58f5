#include "tools/client/relay_process.hpp"

#include <netdb.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <stdexcept>
#include <system_error>

namespace troupe::api_client {
namespace {

int connected_socket(const std::string& address, const std::string& port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(address.c_str(), port.c_str(), &hints, &found) != 0) return -1;
  const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const bool connected = fd >= 0 && connect(fd, found->ai_addr, found->ai_addrlen) == 0;
  freeaddrinfo(found);
  return connected ? fd : -1;
}

/// Moves what is there from one descriptor to the other; false at the end of either.
bool pass_on(int from, int to) {
  std::array<char, 16384> bytes;
  const auto got = read(from, bytes.data(), bytes.size());
  for (ssize_t sent = 0; sent < got;) {
    const auto n =
        send(to, bytes.data() + sent, static_cast<std::size_t>(got - sent), MSG_NOSIGNAL);
    if (n <= 0) return false;
    sent += n;
  }
  return got > 0;
}

}  // namespace

int run_relay(const std::string& address, const std::string& port) {
  const int server = connected_socket(address, port);
  if (server < 0) return 1;
  std::array<pollfd, 2> ends{pollfd{0, POLLIN, 0}, pollfd{server, POLLIN, 0}};
  while (true) {
    if (poll(ends.data(), ends.size(), -1) < 0 && errno != EINTR) return 1;
    if (ends[0].revents != 0 && !pass_on(0, server)) return 0;
    if (ends[1].revents != 0 && !pass_on(server, 0)) return 0;
  }
}

relay_process spawn_relay(const std::string& address, std::uint16_t port) {
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    throw std::system_error(errno, std::generic_category(), "a socket pair for a client process");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, pair[1], 0);
  posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  auto word = std::string{relay_word}, self = std::string{"troupe-chaos"}, to = address,
       at = std::to_string(port);
  char* arguments[] = {self.data(), word.data(), to.data(), at.data(), nullptr};
  relay_process made;
  const int failed =
      posix_spawn(&made.pid, "/proc/self/exe", &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(pair[1]);
  if (failed != 0) {
    close(pair[0]);
    throw std::system_error(failed, std::generic_category(), "a client process");
  }
  made.descriptor = pair[0];
  return made;
}

void kill_and_reap(pid_t pid) {
  kill(pid, SIGKILL);
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
}

}  // namespace troupe::api_client
