// Options of connections: sizes, times, access and health.
#include "config/options/option_rows.hpp"

namespace troupe {

using c = runtime_config;

void add_net_limits(std::vector<option_spec>& t) {
  const std::string g = "network";
  t.push_back({.name = "host",
               .group = g,
               .field = &c::host,
               .meaning = "address or name to listen on; 0.0.0.0 = every IPv4 one, :: = all"});
  t.push_back({.name = "port",
               .group = g,
               .field = &c::port,
               .high = 65535,
               .meaning = "port to listen on; 0 = any free one, printed when ready"});
  t.push_back({.name = "threads-http",
               .group = g,
               .field = &c::threads_http,
               .low = 1,
               .high = 64,
               .meaning = "threads that serve connections"});
  t.push_back({.name = "max-connections",
               .group = g,
               .field = &c::max_connections,
               .low = 1,
               .high = 1 << 20,
               .meaning = "open connections; at the limit the one idle longest is closed"});
  t.push_back({.name = "max-websocket-connections",
               .group = g,
               .field = &c::max_websocket_connections,
               .low = 1,
               .high = 1 << 20,
               .meaning = "open WebSockets"});
  t.push_back({.name = "max-body-bytes",
               .group = g,
               .field = &c::max_body_bytes,
               .low = KiB,
               .high = 4 * GiB,
               .meaning = "largest request body"});
  t.push_back({.name = "max-message-bytes",
               .group = g,
               .field = &c::max_message_bytes,
               .low = KiB,
               .high = 4 * GiB,
               .meaning = "largest WebSocket message"});
  t.push_back({.name = "max-pipelined-bytes",
               .group = g,
               .field = &c::max_pipelined_bytes,
               .high = GiB,
               .meaning = "bytes a client may send behind a running HTTP request; more count as a "
                          "client that left"});
  t.push_back({.name = "max-outbound-bytes",
               .group = g,
               .field = &c::max_outbound_bytes,
               .low = 4 * KiB,
               .high = 4 * GiB,
               .meaning = "unsent bytes of one answer, beyond which its request pauses"});
  t.push_back(
      {.name = "send-buffer",
       .group = g,
       .field = &c::send_buffer_bytes,
       .high = GiB,
       .meaning = "kernel send buffer of a connection; 0 = the system's, up to several MiB"});
  t.push_back({.name = "max-n",
               .group = g,
               .field = &c::max_n,
               .low = 1,
               .high = 4096,
               .meaning = "most choices (n) of one request"});
  t.push_back({.name = "max-ws-queue",
               .group = g,
               .field = &c::max_ws_queue,
               .high = 4096,
               .meaning = "responses that may wait on one WebSocket"});
}

void add_net_times(std::vector<option_spec>& t) {
  const std::string g = "network";
  const auto add = [&](const char* name, double c::*field, double low, double high,
                       const char* meaning) { add_seconds(t, g, name, field, low, high, meaning); };
  add("header-timeout", &c::header_timeout_s, 0.1, long_time_s, "time for a request's headers");
  add("body-timeout", &c::body_timeout_s, 0.1, long_time_s,
      "longest time to receive a request body, or a WebSocket message from its first byte on");
  add("keep-alive-timeout", &c::keep_alive_timeout_s, 0.1, long_time_s,
      "time after which an idle connection is closed");
  add("client-send-timeout", &c::client_send_timeout_s, 0.1, long_time_s,
      "longest send without progress");
  add("reader-stall-timeout", &c::reader_stall_timeout_s, 0, long_time_s,
      "longest pause of a request whose client has max-outbound-bytes unread; 0 = no limit");
  add("client-drain-timeout", &c::client_drain_timeout_s, 0.1, long_time_s,
      "longest time to send one piece completely, however slowly the client reads");
  add("sse-keep-alive-interval", &c::sse_keep_alive_interval_s, 0, long_time_s,
      "time between keep-alive comments on an SSE stream without tokens; 0 = none");
  add("ws-ping-interval", &c::ws_ping_interval_s, 0.1, long_time_s, "time between WebSocket pings");
  add("ws-max-age", &c::ws_max_age_s, 1, 1e9, "time a WebSocket may live");
  add("tcp-user-timeout", &c::tcp_user_timeout_s, 0, long_time_s,
      "time after which unacknowledged data ends the connection; 0 = the system's");
  add("tcp-keepalive", &c::tcp_keepalive_s, 0, long_time_s,
      "time after which an idle peer is probed; 0 = never");
  t.push_back({.name = "allow-half-close",
               .group = g,
               .field = &c::half_close_is_gone,
               .meaning = "an HTTP client that shuts its sending side (FIN) still gets its answer; "
                          "a WebSocket never",
               .inverted = true});
}

void add_access_and_health(std::vector<option_spec>& t) {
  const std::string g = "access and health";
  t.push_back({.name = "api-key",
               .group = g,
               .field = &c::api_keys,
               .meaning = "key(s); clients must send one of them",
               .unset = "none, everybody may ask",
               .secret = true});
  t.push_back({.name = "allowed-origins",
               .group = g,
               .field = &c::allowed_origins,
               .meaning = "web pages that may use the server, beside those of its own host: "
                          "scheme://host:port, with * for the port, the host or its first label; "
                          "null; * for all",
               .unset = "none",
               .splits_commas = true});
  t.push_back({.name = "metrics-open",
               .group = g,
               .field = &c::metrics_open,
               .meaning = "/metrics needs no key"});
  t.push_back({.name = "shutdown-timeout",
               .group = g,
               .field = &c::shutdown_timeout_s,
               .unit = "s",
               .high = long_time_s,
               .meaning = "time that running requests get after SIGTERM"});
  add_seconds(t, g, "stall-ready-s", &c::stall_ready_s, 0.1, long_time_s,
              "time without a step while work waits, then /ready answers 503");
  add_seconds(t, g, "stall-health-s", &c::stall_health_s, 0.1, long_time_s, "the same for /health");
}

}  // namespace troupe
