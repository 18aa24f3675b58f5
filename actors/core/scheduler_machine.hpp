// The life of every request and the one writer of a lease's life: admission, queue, deadlines, the plan of the next
// step, preemption, pins, retiring. A pure value: no CAF, clock, thread or log; copyable and hashable; time comes in.
//
// Rules (state x event table: actors/README.md):
//  - at most one step in flight; the next is planned only after step_done or step_failed of the last;
//  - a request that ended while a step names it is `retiring`: nothing is planned for it, its lease goes back and its
//    `ended` goes out when that step returns, never before, never later;
//  - release of a lease is emitted in one place, once per lease that was ever asked for.
#pragma once
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "actors/core/events.hpp"

namespace troupe::core {

struct scheduler_limits {
  std::uint32_t max_num_seqs = 32;
  std::uint32_t max_num_batched_tokens = 512;
  std::uint64_t max_step_us = 100'000;
  std::uint32_t max_num_queued_reqs = 64;
  std::uint32_t block_size = 16;
  std::uint32_t num_blocks = 0;
  std::uint32_t model_context = 0;         ///< smallest of the model's and --max-model-len, in tokens
  std::vector<token_id> end_tokens;        ///< sorted
  std::uint32_t vocab = 0;                 ///< 0: not checked
  deadlines_ms deadlines;                  ///< defaults; 0 = none
  /// Smallest of model_context and the whole pool in tokens.
  std::uint32_t effective_context() const;
};

/// Not an event of the protocol: one of our own rules was broken. Shells abort in dev, count and log in release.
struct violation { std::string invariant; };
/// The table is empty and nothing is in flight, after drain or stop.
struct stopped {};

using effect = std::variant<admitted, refused, tokens_out, ended, reserve, release, audit, step_plan,
                            stopped, violation>;
using effects = std::vector<effect>;

/// Where a request is. `received` and `tokenizing` belong to the session; moving_out, parked, moving_in (mover) and
/// paused (slow readers) are reserved: no transition leads there yet.
enum class request_state : std::uint8_t {
  received, tokenizing,
  queued,               ///< no lease
  awaiting_grant,       ///< lease asked for, not yet answered
  prefilling,           ///< between chunks
  prefilling_in_flight,
  decoding,             ///< between steps
  decoding_in_flight,
  awaiting_recompute,   ///< preempted: no lease, in the queue again
  moving_out, parked, moving_in, paused,
  retiring,             ///< ended, still named by the step in flight
  gone,
};
inline constexpr int request_state_count = static_cast<int>(request_state::gone) + 1;
const char* name_of(request_state);

class scheduler_machine {
 public:
  explicit scheduler_machine(scheduler_limits limits);

  void on(const submit&, time_us now, effects&);
  void on(const cancel&, time_us now, effects&);
  void on(const granted&, time_us now, effects&);
  void on(const denied&, time_us now, effects&);
  void on(const released&, time_us now, effects&);
  void on(const step_done&, time_us now, effects&);
  void on(const step_failed&, time_us now, effects&);
  void on(const tick&, time_us now, effects&);
  void on(const drain&, time_us now, effects&);
  void on(const stop&, time_us now, effects&);

  request_state state_of(request_id) const;   ///< gone for an unknown id
  std::uint32_t running() const;              ///< holds a lease, or has asked for one
  std::uint32_t waiting() const;              ///< queued or awaiting recompute
  bool idle() const;                          ///< no request, nothing in flight
  bool step_in_flight() const;
  std::uint64_t ignored_events() const;       ///< late, duplicate and unknown events: normal, counted
  std::string check() const;                  ///< empty when sound, else the broken invariant

  bool operator==(const scheduler_machine&) const = default;
  std::uint64_t hash() const;

  // The private part (request records as a variant of one struct per state, queue order, cost estimate) is the
  // implementer's.
};

}  // namespace troupe::core
