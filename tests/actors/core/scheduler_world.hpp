// The scheduler machine with the real block ledger, a fake device and a fake mover, joined by FIFO
// channels whose messages move only when told to. Checks the rules that must hold after every
// event. The device keeps what was written into each block and computes a token from what it reads
// back, so a block given away too early or a history computed twice shows as text.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "actors/core/blocks/block_ledger.hpp"
#include "actors/core/scheduler_machine.hpp"

namespace troupe::core::testing {

/// Small and roomy; tests tighten what they are about. End token 0.
scheduler_limits roomy_limits();
/// `count` tokens that differ between requests.
std::vector<token_id> prompt_of(std::uint32_t count, std::uint64_t seed = 1);
submit make_submit(std::uint64_t id, std::uint32_t prompt_tokens, std::uint32_t max_tokens = 8);

struct client_view {
  int admitted = 0, refused = 0, ended = 0;
  core::refused refusal;
  core::ended end;
  std::vector<token_id> tokens;  ///< sampled
  std::vector<token_id> scores;  ///< targets of the prompt's scores, in order
};

class scheduler_world {
 public:
  explicit scheduler_world(scheduler_limits);

  template <class Event>
  void send(const Event& event) {
    last_effects.clear();
    before(event);
    machine.on(event, now, last_effects);
    perform();
    after(event);
  }
  void cancel(std::uint64_t id, end_reason why = end_reason::client_gone) {
    send(core::cancel{request_id{id}, why, now});
  }

  /// One message of the channel to the allocator is processed; its answer waits in the channel
  /// back.
  bool allocate_one();
  /// One answer of the allocator reaches the scheduler.
  bool answer_one();
  /// The step in flight is executed and its result delivered.
  bool finish_step();
  bool break_step(const std::string& what = "device lost");
  /// All allocator messages, no step and no move.
  void settle_allocator();
  /// The mover's next message is carried out; a move's answer reaches the scheduler. False: none,
  /// or the mover is stuck.
  bool move_one(move_outcome = move_outcome::ok);
  bool moving() const { return !to_mover_.empty(); }
  /// Every reader catches up.
  void resume_all() {
    for (const auto id : std::set(stalled_)) send(core::reader_resumed{id});
  }
  /// All allocator and mover messages, no step.
  void run_to_rest();
  /// Everything, until nothing moves.
  void run(int steps_max = 100000);

  bool in_flight() const { return plan_.has_value(); }
  const step_plan& plan() const { return *plan_; }
  bool planned(std::uint64_t id) const;
  request_state state(std::uint64_t id) const { return machine.state_of(request_id{id}); }
  client_view& client(std::uint64_t id) { return clients[request_id{id}]; }
  std::uint32_t blocks_of(std::uint64_t id) const;
  /// Nothing is left: no request, no lease, the pool whole, every lease closed once.
  void require_whole() const;

  template <class Effect>
  std::vector<Effect> sent() const {  ///< of the last event
    std::vector<Effect> found;
    for (const auto& e : last_effects)
      if (const auto* x = std::get_if<Effect>(&e)) found.push_back(*x);
    return found;
  }

  scheduler_machine machine;
  block_ledger ledger;
  std::map<lease_id, std::vector<std::vector<token_id>>> host;  ///< parked copies, block by block
  std::uint32_t host_blocks = 1000;
  bool mover_stuck = false;
  std::uint64_t parks = 0, returns = 0, failed_moves = 0, given_up = 0, hits = 0;
  time_us now = 1'000'000;
  time_us step_us = 1000;
  effects last_effects;
  std::map<request_id, client_view> clients;
  std::set<request_id> poisoned;             ///< the device answers bad_logits for these
  std::function<bool(const reserve&)> deny;  ///< the allocator's answer forced to no
  std::function<bool(const fork_lease&)> deny_fork;
  std::uint64_t forks = 0, copies = 0;  ///< granted; made by a step
  std::uint64_t trimmed = 0;            ///< blocks of leases that went on
  std::uint64_t computed_tokens = 0;    ///< by steps that were done
  int stops = 0, audits = 0;
  std::uint64_t preemptions = 0, steps = 0;
  std::uint32_t end_token_every =
      0;  ///< the device draws the end token about once in so many; 0 never

 private:
  struct lease_story {
    int asked = 0, denied = 0, released = 0;
  };

  template <class Event>
  void before(const Event& e) {
    if constexpr (std::is_same_v<Event, core::cancel>)
      if (machine.state_of(e.request) != request_state::gone) dying_.insert(e.request);
    if constexpr (std::is_same_v<Event, core::reader_stalled>)
      if (machine.state_of(e.request) != request_state::gone) stalled_.insert(e.request);
    if constexpr (std::is_same_v<Event, core::reader_resumed>) stalled_.erase(e.request);
    if constexpr (std::is_same_v<Event, core::submit>) {
      ranks_.emplace(e.request, rank{e.priority, ranks_.size()});
      seeds_.emplace(e.request, e.decode.sampling.seed);
      for (const auto& tail : e.tails) {
        ranks_.emplace(tail.request, rank{e.priority, ranks_.size()});
        seeds_.emplace(tail.request, tail.seed);
      }
    }
  }
  template <class Event>
  void after(const Event&) {
    check(std::exchange(returning_, false));
  }
  void perform();
  void check(bool step_returned) const;
  bool someone_better_runs(request_id) const;
  void accept_plan(const step_plan&);
  bool names(const std::set<lease_id>&, request_id, const std::vector<block_id>&) const;
  std::uint32_t host_used() const;
  move_outcome copy_out(const move_out&);
  void copy_in(const move_in&);
  step_done execute();
  token_id token_after(const std::vector<token_id>& history, std::uint64_t seed) const;
  void allocate(const fork_lease&);
  void copy_blocks();
  bool keeps(request_id, const std::vector<block_id>& row) const;

  scheduler_limits limits_;
  std::deque<std::variant<reserve, fork_lease, drop_source, trim, publish, release, audit>>
      to_allocator_;
  std::deque<std::variant<move_out, move_in, drop_parked, audit>> to_mover_;
  std::deque<std::variant<granted, denied, released>> from_allocator_;
  std::optional<step_plan> plan_;
  std::map<lease_id, lease_story> leases_;
  std::map<lease_id, std::vector<block_id>> blocks_;   // as the allocator sees it
  std::map<lease_id, std::vector<block_id>> sources_;  // kept for a copy
  std::vector<token_id> memory_;                       // one cell per token of the pool
  std::set<request_id> dying_, stalled_;
  std::map<request_id, rank> ranks_;
  std::map<request_id, std::uint64_t> seeds_;
  bool returning_ = false;  // the event is the step's own return
};

}  // namespace troupe::core::testing
