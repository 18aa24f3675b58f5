#include "config/runtime_config.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>

namespace troupe {
namespace {

std::string number(double value) {
  char text[64];
  std::snprintf(text, sizeof text, "%.15g", value);
  return text;
}

/// Collects one line per value outside its range.
class range_check {
 public:
  explicit range_check(std::vector<std::string>& problems) : problems_(problems) {}
  void operator()(const char* option, double value, double low, double high) {
    if (value >= low && value <= high) return;
    problems_.push_back(std::string(option) + ": " + number(value) + " is outside " + number(low) + ".." +
                        number(high));
  }

 private:
  std::vector<std::string>& problems_;
};

}  // namespace

std::vector<std::string> runtime_config::problems() const {
  std::vector<std::string> out;
  range_check check(out);
  if (model.empty()) out.push_back("MODEL: no model file given");
  if (block_size != 16 && block_size != 32)
    out.push_back("--block-size: " + std::to_string(block_size) + " is neither 16 nor 32");
  constexpr std::array isas{"auto", "avx512-vnni", "avx2", "portable"};
  if (std::find(isas.begin(), isas.end(), isa) == isas.end())
    out.push_back("--isa: '" + isa + "' is not one of auto, avx512-vnni, avx2, portable");
  constexpr std::array levels{"trace", "debug", "info", "warn", "error", "off"};
  if (std::find(levels.begin(), levels.end(), log_level) == levels.end())
    out.push_back("--log-level: '" + log_level + "' is not one of trace, debug, info, warn, error, off");
  if (num_kv_blocks) check("--num-kv-blocks", *num_kv_blocks, 1, 1 << 28);
  check("--kv-cache-memory", static_cast<double>(kv_cache_memory), 1 << 20, 1ull << 44);
  check("--threads", threads, 0, 1024);
  check("--max-model-len", max_model_len, 0, 1 << 24);
  check("--max-num-seqs", max_num_seqs, 1, 4096);
  check("--max-num-batched-tokens", max_num_batched_tokens, 1, 65536);
  check("--max-num-queued-reqs", max_num_queued_reqs, 1, 1 << 20);
  check("--max-step-ms", max_step_ms, 1, 60000);
  check("--queue-timeout", queue_timeout_s, 0, 1e6);
  check("--first-token-timeout", first_token_timeout_s, 0, 1e6);
  check("--request-timeout", request_timeout_s, 0, 1e6);
  check("--threads-http", threads_http, 1, 64);
  check("--max-connections", max_connections, 1, 1 << 20);
  check("--max-websocket-connections", max_websocket_connections, 1, 1 << 20);
  check("--max-body-bytes", static_cast<double>(max_body_bytes), 1024, 1ull << 32);
  check("--max-message-bytes", static_cast<double>(max_message_bytes), 1024, 1ull << 32);
  check("--max-pipelined-bytes", static_cast<double>(max_pipelined_bytes), 0, 1ull << 30);
  check("--max-outbound-bytes", static_cast<double>(max_outbound_bytes), 4096, 1ull << 32);
  check("--max-n", max_n, 1, 4096);
  check("--max-ws-queue", max_ws_queue, 0, 4096);
  check("--header-timeout", header_timeout_s, 0.1, 1e6);
  check("--body-timeout", body_timeout_s, 0.1, 1e6);
  check("--keep-alive-timeout", keep_alive_timeout_s, 0.1, 1e6);
  check("--client-send-timeout", client_send_timeout_s, 0.1, 1e6);
  check("--sse-keep-alive-interval", sse_keep_alive_interval_s, 0, 1e6);
  check("--ws-ping-interval", ws_ping_interval_s, 0.1, 1e6);
  check("--ws-max-age", ws_max_age_s, 1, 1e9);
  check("--tcp-user-timeout", tcp_user_timeout_s, 0, 1e6);
  check("--tcp-keepalive", tcp_keepalive_s, 0, 1e6);
  check("--shutdown-timeout", shutdown_timeout_s, 0, 1e6);
  check("--stall-ready-s", stall_ready_s, 0.1, 1e6);
  check("--stall-health-s", stall_health_s, 0.1, 1e6);
  for (const auto& key : api_keys)
    if (key.empty()) out.push_back("--api-key: an empty key would let everybody in");
  return out;
}

std::optional<std::uint64_t> parse_size(const std::string& text) {
  char* end = nullptr;
  if (text.empty() || !(std::isdigit(static_cast<unsigned char>(text[0])) || text[0] == '.')) return {};
  const double value = std::strtod(text.c_str(), &end);
  std::string unit(end);
  std::transform(unit.begin(), unit.end(), unit.begin(), [](unsigned char c) { return std::tolower(c); });
  while (!unit.empty() && unit.front() == ' ') unit.erase(0, 1);
  double scale = 0;
  if (unit.empty() || unit == "b") scale = 1;
  else if (unit == "k" || unit == "kib" || unit == "kb") scale = 1024.0;
  else if (unit == "m" || unit == "mib" || unit == "mb") scale = 1024.0 * 1024;
  else if (unit == "g" || unit == "gib" || unit == "gb") scale = 1024.0 * 1024 * 1024;
  const double bytes = value * scale;
  if (scale == 0 || !std::isfinite(bytes) || bytes < 0 || bytes > 1e18) return {};
  return static_cast<std::uint64_t>(bytes);
}

std::string format_size(std::uint64_t bytes) {
  constexpr std::array units{"bytes", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  std::size_t unit = 0;
  while (value >= 1024 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  char text[64];
  std::snprintf(text, sizeof text, value == std::floor(value) ? "%.0f %s" : "%.1f %s", value, units[unit]);
  return text;
}

}  // namespace troupe
