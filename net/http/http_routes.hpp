// Which request does what: the table of routes, their guards, and the answers that need no
// generation. Pure but for the engine's synchronous text tools; sees no socket. A generating route
// answers with the parsed request to be run.
#pragma once
#include <atomic>
#include <functional>
#include <span>
#include <string>
#include <variant>

#include "actors/api/generation.hpp"
#include "config/runtime_config.hpp"
#include "net/api/wire_in.hpp"
#include "net/http/http_message.hpp"
#include "net/server/cancel_registry.hpp"
#include "net/server/metrics.hpp"

namespace troupe::net {

/// What every connection of one server shares, without its sockets.
struct route_context {
  route_context(const runtime_config& c, core::generation_engine& e, metrics& m)
      : config{c}, engine{e}, counters{m}, limits{limits_of(config, engine.card())} {}

  const runtime_config config;
  core::generation_engine& engine;
  metrics& counters;
  const wire_limits limits;
  cancel_registry registry;
  std::atomic<bool> draining = false;
};

/// The WebSocket handshake may go on.
struct upgrade {};

/// Work too long for a connection's thread: called on a worker thread, while the engine lives.
using slow_reply = std::function<http_reply()>;

struct routed {
  const char* route;  ///< fixed name for the metrics
  std::variant<http_reply, api_request, upgrade, slow_reply> what;
};

routed route(const http_request&, route_context&);
/// route() parses the body as JSON, so a long one is for a worker thread.
bool reads_body(const http_request&);

/// Paths that start generations; a test kills a client on each of them.
std::vector<std::string> generating_routes();

}  // namespace troupe::net
