#include "config/options/option_table.hpp"

#include <cctype>
#include <tuple>

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

// The order of groups and options is that of --help, of --print-config and of the reference.
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
               .meaning = "name(s) of the model that clients may use",
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
               .meaning = "threads that compute",
               .unset = "the cores this process may use"});
  t.push_back({.name = "isa",
               .group = g,
               .field = &c::isa,
               .choices = {"auto", "avx512-vnni", "avx2", "portable"},
               .meaning = "instruction set of the kernels",
               .unset = "the fastest the machine has"});
  t.push_back({.name = "panel-cache",
               .group = g,
               .field = &c::panel_cache,
               .meaning = "save the repacked weights in MODEL.panels and start from them"});
}

void add_memory(std::vector<option_spec>& t) {
  const std::string g = "KV cache";
  t.push_back({.name = "block-size",
               .group = g,
               .field = &c::block_size,
               .unit = "tokens",
               .choices = {"16", "32"},
               .meaning = "tokens in one KV block"});
  for (const auto& [name, field, what, unset] :
       {std::tuple{"kv-cache-dtype", &c::kv_cache_dtype, "K and V are", "as the device does best"},
        std::tuple{"kv-cache-dtype-k", &c::kv_cache_dtype_k, "K alone is", "as kv-cache-dtype"},
        std::tuple{"kv-cache-dtype-v", &c::kv_cache_dtype_v, "V alone is", "as kv-cache-dtype"}})
    t.push_back({.name = name,
                 .group = g,
                 .field = field,
                 .choices = {"auto", "f16", "bf16", "int8", "fp8_e4m3", "fp8_e5m2", "int4"},
                 .meaning = std::string("how ") + what + " stored",
                 .unset = unset});
  t.push_back({.name = "kv-cache-precise-layers",
               .group = g,
               .field = &c::kv_cache_precise_layers,
               .meaning = "FIRST,LAST: so many of the first and of the last layers stay f16",
               .unset = "none"});
  t.push_back({.name = "num-kv-blocks",
               .group = g,
               .field = &c::num_kv_blocks,
               .unit = "blocks",
               .low = 1,
               .high = 1 << 28,
               .meaning = "KV blocks in the pool; overrides kv-cache-memory",
               .unset = "from kv-cache-memory"});
  t.push_back(
      {.name = "kv-cache-memory",
       .group = g,
       .field = &c::kv_cache_memory,
       .low = MiB,
       .high = 16 * TiB,
       .meaning = "size of the KV pool; only the default shrinks to the memory that is free"});
  t.push_back({.name = "enable-prefix-caching",
               .group = g,
               .field = &c::enable_prefix_caching,
               .meaning = "keep blocks of ended requests for prompts with the same prefix"});
  t.push_back({.name = "prewarm",
               .group = g,
               .field = &c::prewarm,
               .meaning = "file of prompts that are computed into the prefix cache before serving",
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
               .meaning = "what happens to a sequence that must give its blocks to another",
               .unset = "park when there is a host tier, else recompute"});
  t.push_back({.name = "kv-transfer-timeout",
               .group = g,
               .field = &c::kv_transfer_timeout_s,
               .unit = "s",
               .low = 0.01,
               .high = 3600,
               .meaning = "a copy between the tiers that takes longer counts as failed"});
  t.push_back({.name = "kv-transfer-chunk-blocks",
               .group = g,
               .field = &c::kv_transfer_chunk_blocks,
               .unit = "blocks",
               .low = 1,
               .high = 4096,
               .meaning = "largest number of blocks in one copy between the tiers"});
}

void add_scheduling(std::vector<option_spec>& t) {
  const std::string g = "scheduling";
  t.push_back({.name = "max-model-len",
               .aliases = {"c", "ctx-size"},
               .group = g,
               .field = &c::max_model_len,
               .unit = "tokens",
               .high = 1 << 24,
               .meaning = "longest sequence, prompt and answer together",
               .unset = "the model's"});
  t.push_back({.name = "max-num-seqs",
               .aliases = {"parallel"},
               .group = g,
               .field = &c::max_num_seqs,
               .low = 1,
               .high = 4096,
               .meaning = "sequences that run at once; at most max-num-batched-tokens"});
  t.push_back({.name = "scheduling-policy",
               .group = g,
               .field = &c::scheduling_policy,
               .choices = {"fcfs", "priority"},
               .meaning = "first come first served, or by \"priority\", which any client may set"});
  t.push_back({.name = "max-num-batched-tokens",
               .group = g,
               .field = &c::max_num_batched_tokens,
               .unit = "tokens",
               .low = 1,
               .high = 65536,
               .meaning = "most tokens computed in one step"});
  t.push_back({.name = "max-num-queued-reqs",
               .group = g,
               .field = &c::max_num_queued_reqs,
               .low = 1,
               .high = 1 << 20,
               .meaning = "requests that may wait in the queue; further ones are refused"});
  t.push_back(
      {.name = "max-step-ms",
       .group = g,
       .field = &c::max_step_ms,
       .unit = "ms",
       .low = 1,
       .high = 60000,
       .meaning = "target time of one step; prefill chunks are made small enough to meet it"});
  add_seconds(t, g, "queue-timeout", &c::queue_timeout_s, 0, long_time_s,
              "longest time in the queue; 0 = no limit");
  add_seconds(t, g, "first-token-timeout", &c::first_token_timeout_s, 0, long_time_s,
              "longest time until the first token; 0 = no limit");
  add_seconds(t, g, "request-timeout", &c::request_timeout_s, 0, long_time_s,
              "longest time of a whole request; 0 = no limit");
  t.push_back({.name = "on-disconnect",
               .group = g,
               .field = &c::on_disconnect,
               .choices = {"stop", "keep_prefix"},
               .meaning = "blocks of a client that leaves: free them, or keep its prefix cached"});
}

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

void add_output(std::vector<option_spec>& t) {
  const std::string g = "log and debugging";
  t.push_back({.name = "log-level",
               .group = g,
               .field = &c::log_level,
               .choices = {"trace", "debug", "info", "warn", "error", "off"},
               .meaning = "lowest level that is logged"});
  t.push_back({.name = "log-format",
               .group = g,
               .field = &c::log_format,
               .choices = {"auto", "text", "json"},
               .meaning = "words or JSON lines, on standard output and standard error",
               .unset = "text on a terminal, else json"});
  t.push_back({.name = "profile",
               .group = g,
               .field = &c::profile,
               .meaning = "print at the end where the device's time went, by kind of kernel"});
  t.push_back({.name = "debug-endpoints",
               .group = g,
               .field = &c::debug_endpoints,
               .meaning = "serve the debugging endpoints; not for a public address"});
  t.push_back({.name = "plant-leak",
               .group = g,
               .field = &c::plant_leak,
               // 2^32 - 1: the whole range of its field.
               .high = 4294967295.0,
               .meaning = "for tests of the audit: lose the N-th release; needs debug-endpoints",
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
  // max-num-seqs is TROUPE_MAX_NUM_SEQS.
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
