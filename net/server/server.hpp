// The server: one port, its I/O threads and every connection. Owned by the program, which gives it
// a generation engine and a metrics registry that outlive it. Knows the engine only through the
// interfaces of actors/core and shows no Boost type. Never decides anything about a generation
// beyond starting and cancelling it.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>

#include "actors/api/generation.hpp"
#include "config/runtime_config.hpp"
#include "net/server/metrics.hpp"

namespace troupe::net {

class server {
 public:
  /// Throws thread_error.
  server(const runtime_config&, core::generation_engine&, metrics&);
  ~server();  ///< stop()
  server(const server&) = delete;
  server& operator=(const server&) = delete;

  /// Threads that a server starts in all.
  static std::uint32_t threads_needed(const runtime_config&);

  /// Starts the I/O threads, then binds and listens; answers the port. Throws std::runtime_error
  /// with one line when a thread is refused (thread_error) or the address cannot be used.
  std::uint16_t start();

  /// Stops accepting; /ready turns 503; new requests on open connections get 503
  /// server_shutting_down; idle connections close. Requests in progress go on.
  void drain();

  /// No request in progress and no reply being written.
  bool idle() const;
  /// Before start(): `call` comes from any thread whenever idle() has become true.
  void when_idle(std::function<void()> call);

  /// Closes every connection (their generations end as shutdown) and joins the threads. May be
  /// called twice.
  void stop();

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace troupe::net
