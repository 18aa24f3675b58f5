// The life of every request, and the only writer of a lease's life: admission, queue, deadlines,
// the plan of the next step, preemption, retiring. A pure value: no CAF, clock, thread or log;
// copyable and hashable, so that the explorer can visit every state of it; time comes in as a
// number.
//
// Rules (state x event table: actors/STATES.md):
//  - at most one step in flight; the next is planned only after step_done or step_failed of the
//  last;
//  - a request that ended while a step or a move names it is `retiring`: nothing is planned for it,
//  its lease goes back
//    and its `ended` goes out when that operation is over, never before, never later;
//  - one chunk of a request is moved at a time, each chunk an operation of its own; a move that is
//  late is abandoned: its
//    lease lives on without the request until the mover says that nothing touches the blocks any
//    more;
//  - the tails of a group wait for its leader without a lease; whenever the leader ends or stops
//  computing before
//    their first tokens are drawn, the next of them leads the others from the queue;
//  - release of a lease is emitted in one place, once per lease that was ever asked for; a denial
//  closes the lease it
//    answers, which then never held anything and needs no release.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "actors/core/events.hpp"
#include "actors/core/request.hpp"
#include "actors/core/scheduler_limits.hpp"
#include "actors/core/step_choice.hpp"

namespace troupe::core {

struct kv_scheduler_part;

/// An invariant was violated: a bug of Troupe, never a client's mistake. Shells abort in dev
/// builds, count and log in release.
struct violation {
  std::string invariant;
};
/// After drain or stop: no request is left and nothing is in flight.
struct stopped {};

/// A request lost its blocks to others; `parked`: to the host tier. For the metrics.
struct preempted {
  request_id request;
  bool parked = false;
};
/// A copy is over its time limit: its request recomputes, its blocks stay pinned until the copy
/// ends. For the metrics.
struct move_abandoned {
  bool out = true;
  std::uint32_t blocks = 0;
  std::uint64_t elapsed_us = 0;
};

using effect = std::variant<admitted, refused, tokens_out, ended, reserve, fork_lease, drop_source,
                            trim, publish, release, audit, move_out, move_in, drop_parked,
                            step_plan, preempted, move_abandoned, stopped, violation>;
using effects = std::vector<effect>;

class scheduler_machine {
 public:
  explicit scheduler_machine(scheduler_limits limits);

  void on(const submit&, time_us now, effects&);
  void on(const cancel&, time_us now, effects&);
  void on(const reader_stalled&, time_us now, effects&);
  void on(const reader_resumed&, time_us now, effects&);
  void on(const granted&, time_us now, effects&);
  void on(const denied&, time_us now, effects&);
  void on(const released&, time_us now, effects&);
  void on(const lost&, time_us now, effects&);
  void on(const moved&, time_us now, effects&);
  void on(const step_done&, time_us now, effects&);
  void on(const step_failed&, time_us now, effects&);
  void on(const tick&, time_us now, effects&);
  void on(const drain&, time_us now, effects&);
  void on(const stop&, time_us now, effects&);

  request_state state_of(request_id) const;  ///< gone for an unknown id
  std::uint32_t running() const;             ///< holds a lease, or has asked for one
  std::uint32_t waiting() const;             ///< queued, parked, awaiting recompute or a fork
  bool idle() const;                         ///< no request, nothing in flight
  bool at_rest() const;  ///< nothing in flight, and every request waits for its reader
  bool step_in_flight() const;
  std::uint64_t ignored_events() const;  ///< late, duplicate and unknown events: normal, counted
  kv_scheduler_part view(time_us now) const;  ///< for the audit (kv_audit.hpp)
  std::string check() const;                  ///< the broken invariant; empty: none

  bool operator==(const scheduler_machine&) const = default;
  /// Everything that decides what it will do; see state_hash.
  void add_to(state_hash&) const;

 private:
  struct running_step {
    step_id step;
    std::vector<request_id> items;  // in plan order
    std::uint32_t decode_rows = 0, prefill_tokens = 0;
    bool operator==(const running_step&) const = default;
  };

  /// A chunk being copied: it pins the lease and the copy until `moved`.
  struct running_move {
    request_id request;
    lease_id lease, copy;
    bool out = true;
    bool abandoned = false;  // over its time limit: the request went on without it
    std::uint32_t blocks = 0;
    time_us began = 0, by = never;
    bool operator==(const running_move&) const = default;
  };

  // Every event ends in advance(), which does what became due or possible. The order matters: ends
  // come first, because they release blocks; preemption before growth and admission, because it
  // makes room for them; the plan last, because all of them change who can be in it.
  void advance(time_us now, effects&);
  void expire(time_us now, effects&);
  void report_when_empty(effects&);
  // scheduler_admission.cpp: which request gets blocks, which gives them up.
  std::optional<refused> objection_to(const submit&) const;
  bool queue_is_full(std::size_t new_requests) const;
  void make_room(time_us now, effects&);
  bool admission_waits() const;
  std::map<rank, request_id>::const_iterator next_in_queue() const;
  void grow(effects&);
  void trim_behind_windows(effects&);
  void trim_group(holding&, std::uint32_t group, std::uint32_t rows, effects&) const;
  std::vector<block_id> blocks_to_copy(const holding&, std::uint32_t computed) const;
  void admit(effects&);
  void preempt(request&, time_us now, effects&);
  void back_to_queue(request&, std::optional<parked_copy>);
  void blocks_came_back();
  void retry_growth();
  // scheduler_forks.cpp: several answers to one prompt.
  void admit_tails(const submit&, request& leader, effects&);
  std::uint32_t seats_for_tails() const;
  void on_leader_granted(const request&, time_us now);
  void send_scores(const request& leader, const tokens_out&, effects&);
  void draw_tails(request& leader, lease_id parent, const item_result&, time_us now, effects&);
  void begin_fork(request& tail, lease_id parent, effects&);
  void forked(request&, const granted&, effects&);
  void copied(holding&, effects&) const;
  void end_scored_tails(const request& leader, life_phase, time_us now, effects&);
  void hand_over(request& leader);
  void leave_group(const request& tail);
  // scheduler_moves.cpp: chunks to the host tier and back, and what follows from their end.
  bool worth_parking(const request&) const;
  void next_chunk_out(request&, time_us now, effects&);
  void next_chunk_in(request&, time_us now, effects&);
  void pin(request&, transfer&, const parked_copy&, bool out_of_device, time_us now);
  void moved_out(request&, move_outcome, time_us now, effects&);
  void moved_in(request&, move_outcome, time_us now, effects&);
  void abandon(move_id, time_us now, effects&);
  // scheduler_planning.cpp
  void plan(time_us now, effects&);
  plan_item item_of(const request&, std::uint32_t tokens) const;
  // scheduler_results.cpp
  void absorb(request&, const item_result&, time_us now, effects&);
  void take_token(request&, const scored_token&, life_phase, tokens_out, time_us now, effects&);
  void fail_step(const running_step&, const std::string& what, time_us now, effects&);
  // Ends. close() is for ends that may meet an operation in flight; finish() releases and reports.
  void close(request&, verdict, time_us now, effects&);
  void finish(request&, const verdict&, life_phase, time_us now, effects&);
  void give_back(lease_id, end_reason why, bool preempted, bool forget, effects&) const;
  void publish_computed(request&, effects&) const;

  request* find(request_id);
  std::uint32_t rows_of(const holding&) const;
  std::uint32_t capacity_of(const holding&) const;
  std::uint32_t computable(const request&) const;
  audit census() const;
  std::string broken_sharing(const request&, std::map<block_id, bool>& seen) const;
  std::string broken_group(const request&) const;

  scheduler_limits limits_;
  std::map<request_id, request> requests_;
  std::map<rank, request_id> queue_;    // queued and awaiting_recompute
  std::map<rank, request_id> running_;  // with a lease
  std::map<rank, request_id> to_fork_;  // awaiting_fork
  std::optional<request_id> asking_;    // the one in awaiting_grant
  std::optional<running_step> in_flight_;
  std::map<move_id, running_move> moves_;
  step_cost cost_;
  bool blocked_ = false;  // the pool denied: no reserve until blocks come back or nothing runs
  bool draining_ = false;
  bool stopped_ = false;
  bool audited_idle_ = true;
  std::uint64_t arrivals_ = 0;
  std::uint64_t steps_ = 0;
  std::uint64_t moves_begun_ = 0;
  std::uint64_t ignored_ = 0;
  time_us next_check_ = never;  // no deadline or limit is over before this
  time_us audit_due_ = 0;
};

}  // namespace troupe::core
