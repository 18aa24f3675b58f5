// A client process that can be killed: it owns the TCP connection and relays bytes between it and
// descriptor 0. It is spawned from the running executable, whose main() must pass such an
// invocation on to run_relay(), and spoken to through the other end of a socket pair.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace troupe::api_client {

/// First argument of the hidden invocation: relay_word ADDRESS PORT.
inline constexpr const char* relay_word = "relay-for-kill-9";

/// The body of the client process; returns its exit code when either side closes.
int run_relay(const std::string& address, const std::string& port);

struct relay_process {
  pid_t pid = 0;
  int descriptor = -1;  // our end of the pair; the caller owns it
};

/// Throws std::runtime_error when there is no process to be had. The child inherits nothing but its
/// end of the pair: a copy of another client's socket would keep that connection open.
relay_process spawn_relay(const std::string& address, std::uint16_t port);

/// SIGKILL and reap: on return the kernel has closed the process's connection.
void kill_and_reap(pid_t pid);

}  // namespace troupe::api_client
