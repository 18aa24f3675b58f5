#include "config/option_table.hpp"

#include <cctype>

namespace troupe {
namespace {

using c = runtime_config;

constexpr double KiB = 1024, MiB = KiB * 1024, GiB = MiB * 1024, TiB = GiB * 1024;
constexpr double long_time_s = 1e6;

void add_seconds(std::vector<option_spec>& t, const std::string& group, const char* name,
                 double c::*field, double low, double high, const char* meaning) {
  t.push_back({.name = name,
               .group = group,
               .field = field,
               .unit = "s",
               .low = low,
               .high = high,
               .meaning = meaning});
}

void add_model(std::vector<option_spec>& t) {
  const std::string g = "model and device";
  t.push_back({.name = "model",
               .aliases = {"m"},
               .group = g,
               .field = &c::model,
               .meaning = "GGUF file to serve; also the first argument",
               .unset = "must be given"});
  t.push_back({.name = "served-model-name",
               .aliases = {"a", "alias"},
               .group = g,
               .field = &c::served_model_names,
               .meaning = "name(s) clients may use",
               .unset = "the file's stem"});
  t.push_back({.name = "device",
               .group = g,
               .field = &c::device,
               .meaning = "the device that computes: auto or cpu",
               .unset = "the first the machine has"});
  t.push_back({.name = "threads",
               .group = g,
               .field = &c::threads,
               .high = 1024,
               .meaning = "worker threads of the device",
               .unset = "the cores this process may use"});
  t.push_back({.name = "isa",
               .group = g,
               .field = &c::isa,
               .choices = {"auto", "avx512-vnni", "avx2", "portable"},
               .meaning = "kernels",
               .unset = "the fastest the machine has"});
  t.push_back(
      {.name = "panel-cache",
       .group = g,
       .field = &c::panel_cache,
       .meaning =
           "keep the repacked weights in MODEL.panels, and start from them when they still fit"});
}

void add_memory(std::vector<option_spec>& t) {
  const std::string g = "KV cache";
  t.push_back({.name = "block-size",
               .group = g,
               .field = &c::block_size,
               .unit = "tokens",
               .choices = {"16", "32"},
               .meaning = "tokens of one KV block"});
  t.push_back({.name = "kv-cache-dtype",
               .group = g,
               .field = &c::kv_cache_dtype,
               .choices = {"auto", "f16"},
               .meaning = "how K and V are stored",
               .unset = "as the device does best"});
  t.push_back({.name = "num-kv-blocks",
               .group = g,
               .field = &c::num_kv_blocks,
               .unit = "blocks",
               .low = 1,
               .high = 1 << 28,
               .meaning = "KV blocks in the pool; wins over kv-cache-memory",
               .unset = "from kv-cache-memory"});
  t.push_back({.name = "kv-cache-memory",
               .group = g,
               .field = &c::kv_cache_memory,
               .low = MiB,
               .high = 16 * TiB,
               .meaning = "size of the KV pool; the default shrinks to what the memory leaves, a "
                          "given one is refused"});
  t.push_back({.name = "enable-prefix-caching",
               .group = g,
               .field = &c::enable_prefix_caching,
               .meaning = "keep the blocks of ended requests for prompts that begin alike"});
  t.push_back({.name = "prewarm",
               .group = g,
               .field = &c::prewarm,
               .meaning = "file of prompts whose prefixes are computed before serving",
               .unset = "none"});
  t.push_back({.name = "kv-offloading-size",
               .group = g,
               .field = &c::kv_offloading_bytes,
               .high = 16 * TiB,
               .meaning = "host tier of the KV cache; a plain number is GiB",
               .unset = "no host tier",
               .plain_unit = 1ull << 30});
  t.push_back({.name = "preemption",
               .group = g,
               .field = &c::preemption,
               .choices = {"auto", "park", "recompute"},
               .meaning = "what happens to a sequence that must make room",
               .unset = "park when there is a host tier, else recompute"});
  t.push_back({.name = "kv-transfer-timeout",
               .group = g,
               .field = &c::kv_transfer_timeout_s,
               .unit = "s",
               .low = 0.01,
               .high = 3600,
               .meaning = "a copy between tiers that takes longer counts as failed"});
  t.push_back({.name = "kv-transfer-chunk-blocks",
               .group = g,
               .field = &c::kv_transfer_chunk_blocks,
               .unit = "blocks",
               .low = 1,
               .high = 4096,
               .meaning = "most blocks of one copy between tiers"});
}

void add_scheduling(std::vector<option_spec>& t) {
  const std::string g = "scheduling";
  t.push_back({.name = "max-model-len",
               .aliases = {"c", "ctx-size"},
               .group = g,
               .field = &c::max_model_len,
               .unit = "tokens",
               .high = 1 << 24,
               .meaning = "context of a sequence",
               .unset = "the model's"});
  t.push_back({.name = "max-num-seqs",
               .aliases = {"parallel"},
               .group = g,
               .field = &c::max_num_seqs,
               .low = 1,
               .high = 4096,
               .meaning = "sequences that run at once, at most one per token of a step"});
  t.push_back({.name = "scheduling-policy",
               .group = g,
               .field = &c::scheduling_policy,
               .choices = {"fcfs", "priority"},
               .meaning = "order of requests: as they come, or by their \"priority\" first, which "
                          "any client may then name"});
  t.push_back({.name = "max-num-batched-tokens",
               .group = g,
               .field = &c::max_num_batched_tokens,
               .unit = "tokens",
               .low = 1,
               .high = 65536,
               .meaning = "tokens of one step"});
  t.push_back({.name = "max-num-queued-reqs",
               .group = g,
               .field = &c::max_num_queued_reqs,
               .low = 1,
               .high = 1 << 20,
               .meaning = "requests that may wait"});
  t.push_back({.name = "max-step-ms",
               .group = g,
               .field = &c::max_step_ms,
               .unit = "ms",
               .low = 1,
               .high = 60000,
               .meaning = "target time of one step; shrinks prefill chunks"});
  add_seconds(t, g, "queue-timeout", &c::queue_timeout_s, 0, long_time_s,
              "time a request may wait; 0 = no limit");
  add_seconds(t, g, "first-token-timeout", &c::first_token_timeout_s, 0, long_time_s,
              "time until the first token; 0 = no limit");
  add_seconds(t, g, "request-timeout", &c::request_timeout_s, 0, long_time_s,
              "time of a whole request; 0 = no limit");
  t.push_back(
      {.name = "on-disconnect",
       .group = g,
       .field = &c::on_disconnect,
       .choices = {"stop", "keep_prefix"},
       .meaning = "what becomes of the blocks when a client leaves, unless its request says it"});
}

void add_net_limits(std::vector<option_spec>& t) {
  const std::string g = "network";
  t.push_back({.name = "host", .group = g, .field = &c::host, .meaning = "address to listen on"});
  t.push_back({.name = "port",
               .group = g,
               .field = &c::port,
               .high = 65535,
               .meaning = "port; 0 = any free one, printed when ready"});
  t.push_back({.name = "threads-http",
               .group = g,
               .field = &c::threads_http,
               .low = 1,
               .high = 64,
               .meaning = "I/O threads"});
  t.push_back({.name = "max-connections",
               .group = g,
               .field = &c::max_connections,
               .low = 1,
               .high = 1 << 20,
               .meaning = "open connections; when all are taken, the one that has waited for its "
                          "client longest, with no whole request, makes room"});
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
               .meaning = "bytes kept that arrive behind a running request"});
  t.push_back({.name = "max-outbound-bytes",
               .group = g,
               .field = &c::max_outbound_bytes,
               .low = 4 * KiB,
               .high = 4 * GiB,
               .meaning = "undelivered answer of one request; beyond it the request pauses"});
  t.push_back({.name = "send-buffer",
               .group = g,
               .field = &c::send_buffer_bytes,
               .high = GiB,
               .meaning = "what the kernel takes of a client's unread bytes; 0 = the system's, "
                          "which may grow to MiBs"});
  t.push_back({.name = "max-n",
               .group = g,
               .field = &c::max_n,
               .low = 1,
               .high = 4096,
               .meaning = "choices of one request"});
  t.push_back({.name = "max-ws-queue",
               .group = g,
               .field = &c::max_ws_queue,
               .high = 4096,
               .meaning = "responses that wait on one WebSocket"});
}

void add_net_times(std::vector<option_spec>& t) {
  const std::string g = "network";
  const auto add = [&](const char* name, double c::*field, double low, double high,
                       const char* meaning) { add_seconds(t, g, name, field, low, high, meaning); };
  add("header-timeout", &c::header_timeout_s, 0.1, long_time_s, "time for a request's headers");
  add("body-timeout", &c::body_timeout_s, 0.1, long_time_s,
      "time for a request's body, and for a WebSocket message from its first bytes on");
  add("keep-alive-timeout", &c::keep_alive_timeout_s, 0.1, long_time_s,
      "time an idle connection stays open");
  add("client-send-timeout", &c::client_send_timeout_s, 0.1, long_time_s,
      "time one write may make no progress");
  add("reader-stall-timeout", &c::reader_stall_timeout_s, 0, long_time_s,
      "time a request waits for a reader that is behind by max-outbound-bytes; 0 = for ever");
  add("client-drain-timeout", &c::client_drain_timeout_s, 0.1, long_time_s,
      "time until all of one write has left, however slowly it is read");
  add("sse-keep-alive-interval", &c::sse_keep_alive_interval_s, 0, long_time_s,
      "time between comments on an SSE stream without tokens; 0 = none");
  add("ws-ping-interval", &c::ws_ping_interval_s, 0.1, long_time_s, "time between WebSocket pings");
  add("ws-max-age", &c::ws_max_age_s, 1, 1e9, "time a WebSocket may live");
  add("tcp-user-timeout", &c::tcp_user_timeout_s, 0, long_time_s,
      "unacknowledged data ends the connection after this; 0 = the system's");
  add("tcp-keepalive", &c::tcp_keepalive_s, 0, long_time_s,
      "an idle peer is probed after this; 0 = never");
  t.push_back({.name = "allow-half-close",
               .group = g,
               .field = &c::half_close_is_gone,
               .meaning = "a client may shut its sending side and still read",
               .inverted = true});
}

void add_access_and_health(std::vector<option_spec>& t) {
  const std::string g = "access and health";
  t.push_back({.name = "api-key",
               .group = g,
               .field = &c::api_keys,
               .meaning = "key(s), one of which clients must send",
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
               .meaning = "/metrics answers without the key"});
  t.push_back({.name = "shutdown-timeout",
               .group = g,
               .field = &c::shutdown_timeout_s,
               .unit = "s",
               .high = long_time_s,
               .meaning = "time running requests get after SIGTERM"});
  t.push_back({.name = "stall-ready-s",
               .group = g,
               .field = &c::stall_ready_s,
               .unit = "s",
               .low = 0.1,
               .high = long_time_s,
               .meaning = "work waits and no step ends for this long: /ready turns 503"});
  t.push_back({.name = "stall-health-s",
               .group = g,
               .field = &c::stall_health_s,
               .unit = "s",
               .low = 0.1,
               .high = long_time_s,
               .meaning = "the same for /health"});
}

void add_output(std::vector<option_spec>& t) {
  const std::string g = "log and debugging";
  t.push_back({.name = "log-level",
               .group = g,
               .field = &c::log_level,
               .choices = {"trace", "debug", "info", "warn", "error", "off"},
               .meaning = "least severe line of the log"});
  t.push_back({.name = "log-format",
               .group = g,
               .field = &c::log_format,
               .choices = {"auto", "text", "json"},
               .meaning = "words or JSON lines, on both outputs",
               .unset = "text on a terminal, else json"});
  t.push_back({.name = "profile",
               .group = g,
               .field = &c::profile,
               .meaning = "tell at the end where the device's time went, by kind of kernel"});
  t.push_back({.name = "debug-endpoints",
               .group = g,
               .field = &c::debug_endpoints,
               .meaning = "serve the endpoints that look inside; not for a public address"});
  t.push_back(
      {.name = "plant-leak",
       .group = g,
       .field = &c::plant_leak,
       .high = 4294967295.0,
       .meaning =
           "forget the N-th release of blocks, to see the audit find it; needs debug-endpoints",
       .unset = "none"});
}

std::vector<option_spec> make_table() {
  std::vector<option_spec> table;
  add_model(table);
  add_memory(table);
  add_scheduling(table);
  add_net_limits(table);
  add_net_times(table);
  add_access_and_health(table);
  add_output(table);
  return table;
}

}  // namespace

const std::vector<option_spec>& option_table() {
  static const auto table = make_table();
  return table;
}

const option_spec* find_option(const std::string& name) {
  for (const auto& spec : option_table())
    if (spec.name == name) return &spec;
  return nullptr;
}

std::string variable_name(const option_spec& spec) {
  std::string out = "TROUPE_";
  for (const char ch : spec.name)
    out += ch == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(ch)));
  return out;
}

bool is_flag(const option_spec& spec) {
  return std::holds_alternative<bool runtime_config::*>(spec.field);
}

bool is_list(const option_spec& spec) {
  return std::holds_alternative<std::vector<std::string> runtime_config::*>(spec.field);
}

}  // namespace troupe
