// Every setting of `troupe serve` with its default, as a plain struct. config/options/option_table
// gives each a name and a range, config/options/load_config fills it; read-only afterwards. Knows
// nothing of actors, sockets or models.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe {

struct runtime_config {
  // model and device
  std::string model;                            ///< path of the GGUF file
  std::vector<std::string> served_model_names;  ///< default: the file's stem
  std::string device = "auto";                  ///< what computes; gpu/make_backend knows the names
  std::uint32_t threads = 0;                    ///< 0: the cores this process may use
  std::string isa = "auto";                     ///< auto, avx512-vnni, avx2, portable
  bool panel_cache = false;  ///< keep the repacked weights in a file beside the model

  // KV pool
  std::uint32_t block_size = 16;               ///< tokens: 16 or 32
  std::string kv_cache_dtype = "auto";         ///< how K and V are stored; auto: as the device does
  std::string kv_cache_dtype_k = "auto";       ///< of K alone; auto: as kv_cache_dtype
  std::string kv_cache_dtype_v = "auto";       ///< of V alone
  std::string kv_cache_precise_layers;         ///< "FIRST,LAST" layers stay f16; empty: none
  std::optional<std::uint32_t> num_kv_blocks;  ///< wins over kv_cache_memory
  std::uint64_t kv_cache_memory = 1ull << 30;  ///< bytes
  bool kv_cache_memory_given = false;          ///< false: may shrink to what the memory leaves
  bool enable_prefix_caching = true;
  std::string prewarm;  ///< file of prompts whose prefixes are computed before serving; empty: none

  // host tier
  std::uint64_t kv_offloading_bytes = 0;  ///< 0: no host tier
  std::string preemption = "auto";   ///< auto (park when there is a host tier), park, recompute
  double kv_transfer_timeout_s = 2;  ///< a copy between tiers that takes longer counts as failed
  std::uint32_t kv_transfer_chunk_blocks = 32;  ///< blocks of one copy

  // scheduling
  std::uint32_t max_model_len = 0;  ///< 0: the model's
  std::uint32_t max_num_seqs = 32;
  std::uint32_t max_num_batched_tokens = 512;
  std::uint32_t max_num_queued_reqs = 64;
  std::uint32_t max_step_ms = 100;
  double queue_timeout_s = 60;  ///< 0: none; the same for the next two
  double first_token_timeout_s = 120;
  double request_timeout_s = 600;
  std::string scheduling_policy = "fcfs";  ///< fcfs, priority: whether requests may name one
  std::string on_disconnect = "stop";  ///< stop, keep_prefix: what a request that names none gets

  // net
  std::string host = "127.0.0.1";
  std::uint16_t port = 8000;  ///< 0: any free port, printed when ready
  std::uint32_t threads_http = 1;
  std::uint32_t max_connections = 1024;
  std::uint32_t max_websocket_connections = 256;
  std::uint64_t max_body_bytes = 4ull << 20;
  std::uint64_t max_message_bytes = 4ull << 20;  ///< one WebSocket message
  std::uint64_t max_pipelined_bytes = 64ull << 10;
  std::uint64_t max_outbound_bytes = 256ull
                                     << 10;  ///< undelivered answer of one request; then it pauses
  std::uint32_t max_n = 16;                  ///< choices of one request (n, or prompts x n)
  std::uint32_t max_ws_queue = 16;           ///< responses waiting on one WebSocket
  double header_timeout_s =
      10;  ///< a request's header and body must arrive within this and the next
  double body_timeout_s = 30;
  double keep_alive_timeout_s = 120;  ///< an idle connection; above the 90 s of Go's HTTP client
  std::uint64_t send_buffer_bytes =
      256ull << 10;  ///< of an accepted socket; 0: the system's, which may grow to MiBs
  double client_send_timeout_s = 30;  ///< one write that makes no progress
  double client_drain_timeout_s =
      120;  ///< until all of one write has left, however slowly it is read
  double reader_stall_timeout_s =
      30;  ///< a paused request waits so long for its reader; 0: for ever
  double sse_keep_alive_interval_s = 15;
  double ws_ping_interval_s = 20;
  double ws_max_age_s = 3600;
  double tcp_user_timeout_s = 30;
  double tcp_keepalive_s = 30;
  bool half_close_is_gone = true;  ///< FIN during a request: the client left (HTTP only)
  std::vector<std::string> api_keys;
  std::vector<std::string> allowed_origins;  ///< patterns, as origin_pattern.hpp reads them
  bool metrics_open = false;                 ///< /metrics without the key
  double shutdown_timeout_s = 10;            ///< drain on SIGTERM
  double stall_ready_s = 30;                 ///< no step retired while work waits: /ready turns 503
  double stall_health_s = 120;

  // debugging
  bool profile = false;  ///< the device measures where its time goes; printed at the end
  bool debug_endpoints = false;
  std::uint32_t plant_leak = 0;  ///< forget the N-th release, to see the audit find it; 0: none

  // output
  std::string log_format = "auto";  ///< auto (words on a terminal), text, json
  bool json = false;                ///< what log_format came to, decided at start
  std::string log_level = "info";

  /// All problems at once, each naming option, value and range; empty when the configuration is
  /// sound.
  std::vector<std::string> problems() const;
  /// Only those between settings that are each in range; a missing model is none.
  std::vector<std::string> contradictions() const;
};

/// "512", "64KiB", "1GiB", "1.5G" to bytes. nullopt: not a size.
std::optional<std::uint64_t> parse_size(const std::string& text);
/// 1536 -> "1.5 KiB".
std::string format_size(std::uint64_t bytes);

}  // namespace troupe
