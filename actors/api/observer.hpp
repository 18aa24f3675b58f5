// What the runtime reports about itself while it runs. Implemented by net/server/metrics and by the
// log; called from actor threads, in the middle of their handlers, so every call must be quick and
// thread-safe. Plain values, no actor type.
#pragma once
#include <cstdint>
#include <string>

#include "actors/api/generation.hpp"
#include "actors/api/outcome.hpp"

namespace troupe::core {

struct request_record {
  request_id id;
  std::string label;
  end_reason reason = end_reason::end_token;
  refusal why_refused = refusal::none;
  life_phase phase = life_phase::done;  ///< where it was when it ended
  token_usage usage;
  request_times times;
  std::uint32_t preemptions = 0;
  std::uint32_t max_tokens = 0;
};

struct step_record {
  std::uint64_t step = 0;
  std::uint32_t sequences = 0;
  std::uint32_t prefill_tokens = 0;
  std::uint32_t decode_tokens = 0;
  std::uint64_t elapsed_us = 0;
};

/// The allocator's own counts, after each change.
struct pool_record {
  std::uint64_t total = 0, used = 0, cached = 0, quarantined = 0;
  std::uint64_t allocated_total = 0;  ///< blocks ever granted
  std::uint64_t leaked = 0;           ///< leased, but to no lease the scheduler knows (last audit)
};

/// One copy between the tiers that is over, or was abandoned as late.
struct move_record {
  bool out = true;  ///< to the host tier
  move_outcome outcome = move_outcome::ok;
  std::uint32_t blocks = 0;
  std::uint64_t elapsed_us = 0;
};

/// The host tier's own counts, after each change.
struct host_tier_record {
  std::uint64_t total = 0, used = 0;  ///< blocks
  std::uint64_t leaked = 0;  ///< found by audits: copies that no live request owned; dropped
};

class observer {
 public:
  virtual ~observer() = default;
  virtual void on_end(const request_record&) = 0;
  virtual void on_step(const step_record&) = 0;
  virtual void on_pool(const pool_record&) = 0;
  /// `after`: the pool with those blocks back, in one call so that no scrape sees half of it.
  virtual void on_released(end_reason why, bool preempted, std::uint32_t blocks,
                           const pool_record& after) = 0;
  virtual void on_release_latency(double seconds) = 0;  ///< cause seen -> blocks back
  virtual void on_load(std::uint32_t running, std::uint32_t waiting) = 0;
  /// `parked`: its blocks are moved to the host tier; else they are released and recomputed later.
  virtual void on_preemption(bool parked) = 0;
  virtual void on_move(const move_record&) = 0;
  virtual void on_host_tier(const host_tier_record&) = 0;
  /// An admission looked for `queried` prompt tokens in the prefix cache and found `hit` of them.
  virtual void on_prefix(std::uint32_t queried, std::uint32_t hit) = 0;
  virtual void on_inter_token(double seconds) = 0;
  virtual void on_violation(const std::string& invariant) = 0;
};

}  // namespace troupe::core
