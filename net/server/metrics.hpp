// Every metric of the process, under the prefix `troupe_`. Implements the engine's observer; the
// connections report their own events. Thread-safe; every call is a few atomic adds or one short
// lock. Owned by the program; outlives engine and server. No label holds text a client sent.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "actors/api/observer.hpp"

namespace troupe::net {

enum class transport : std::uint8_t { http, sse, ws };

class metrics : public core::observer {
 public:
  metrics();
  ~metrics() override;
  metrics(const metrics&) = delete;
  metrics& operator=(const metrics&) = delete;

  // From the engine. Pool, releases and scrape share one lock: in one scrape allocated - released =
  // used.
  void on_end(const core::request_record&) override;
  void on_step(const core::step_record&) override;
  void on_pool(const core::pool_record&) override;
  void on_released(core::end_reason why, bool preempted, std::uint32_t blocks,
                   const core::pool_record&) override;
  void on_release_latency(double seconds) override;
  void on_load(std::uint32_t running, std::uint32_t waiting) override;
  void on_preemption(bool parked) override;
  void on_move(const core::move_record&) override;
  void on_host_tier(const core::host_tier_record&) override;
  void on_prefix(std::uint32_t queried, std::uint32_t hit) override;
  void on_inter_token(double seconds) override;
  void on_violation(const std::string& invariant) override;

  // From the connections.
  void on_disconnect(transport, core::life_phase);
  /// A connection was ended because its client does not read.
  void on_slow_reader(transport);
  void on_websocket_open();
  void on_websocket_closed();
  /// `route` is one of the server's fixed route names, "other" for unknown paths.
  void on_http_request(std::string_view route, std::string_view method, int status);

  /// Prometheus text, format 0.0.4.
  std::string scrape();

 private:
  struct impl;
  std::unique_ptr<impl> impl_;
};

}  // namespace troupe::net
