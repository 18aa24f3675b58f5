// The rules of a run, checked from the messages alone, independently of the shells' own state:
// which lease holds which block, which step and moves are in flight, which requests have ended.
// Sees each message when it is sent and when it is about to be handled; the first broken rule ends
// the run. Owned by the world; changes nothing.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/api/quiet_observer.hpp"
#include "tests/sim/shells/edge.hpp"
#include "tests/sim/shells/scenario.hpp"

namespace troupe::sim {

class referee final : public quiet_observer {
 public:
  explicit referee(const scenario& of)
      : of_(of), requests_(of.clients.size()), holders_(of.limits.num_blocks) {}

  void sent(const edge& on, const caf::type_erased_tuple& what);
  void handling(const edge& on, const caf::type_erased_tuple& what);
  /// A handler has returned: the allocator's counts must agree with the grants seen.
  void handled();
  /// No message waits, no operation is in flight, every session has ended.
  void at_rest();

  void complain(const std::string& what) {
    if (broken_.empty()) broken_ = what;
  }
  /// Empty: nothing was broken.
  const std::string& broken() const { return broken_; }

  /// The clock was advanced: from now on a deadline can be the reason of an end.
  void time_moved() { time_moved_ = true; }
  bool cancel_sent(std::uint32_t session) const { return requests_[session].cancel_sent; }
  bool stall_reported(std::uint32_t session) const { return requests_[session].stalled; }
  /// The scheduler still owes an admitted request its end.
  bool serves_requests() const;
  /// The scheduler has taken this session's request and knows of no end.
  bool is_running(std::uint32_t session) const {
    const auto& request = requests_[session];
    return request.submitted && !request.terminal && !request.closed;
  }
  /// How often the observer was told that this request ended.
  std::uint32_t ends_recorded(std::uint32_t session) const { return requests_[session].recorded; }
  /// The blocks of the oldest copy may be touched now.
  void copy_ends();

  // quiet_observer
  void on_end(const core::request_record& record) override;
  void on_pool(const core::pool_record& record) override { pool_ = record; }
  void on_released(core::end_reason, bool, std::uint32_t blocks,
                   const core::pool_record& after) override {
    released_ += blocks;
    pool_ = after;
  }
  void on_release_latency(double seconds) override;
  void on_preemption(bool parked) override { ++(parked ? parks : preemptions); }
  void on_host_tier(const core::host_tier_record& record) override { host_ = record; }
  void on_violation(const std::string& invariant) override { complain("reported: " + invariant); }

  std::uint64_t preemptions = 0, parks = 0;

 private:
  struct watched {
    bool submitted = false, admitted = false, started = false, terminal = false;
    bool cancel_sent = false;                // by the session, to the scheduler
    bool stalled = false;                    // the session reported that its reader is behind
    std::optional<core::end_reason> closed;  // why the scheduler must end it, once it knows
    core::lease_id lease;                    // the last one reserved
    std::uint32_t recorded = 0;
  };
  struct lease_book {
    std::vector<core::block_id> blocks;
    bool granted = false, released = false;
    bool denied = false;  // before it held a block; a release may still be in flight
  };
  struct named_part {
    core::request_id request;
    core::lease_id lease;
  };
  struct move_book {
    core::move_id id;
    core::lease_id lease, copy;
    std::vector<core::block_id> blocks;
  };

  watched* find(core::request_id id);
  lease_book* book(core::lease_id lease);
  void scheduler_to_session(const edge& on, const caf::type_erased_tuple& what);
  void scheduler_to_allocator(const caf::type_erased_tuple& what);
  void allocator_to_scheduler(const caf::type_erased_tuple& what);
  void planned(const core::step_plan& plan);
  void computed(const core::step_plan& plan);
  void move_begun(core::move_id id, core::request_id request, core::lease_id copy,
                  const std::vector<core::block_id>& blocks);
  void ended(const core::ended& x);
  void released(const core::release& x);
  void give_back(core::lease_id lease);
  void close_for(core::request_id request, core::end_reason why);

  const scenario& of_;
  std::vector<watched> requests_;
  std::map<core::lease_id, lease_book> leases_;
  std::vector<std::vector<core::lease_id>> holders_;  // per block
  std::optional<core::step_plan> step_;
  std::vector<named_part> parts_;  // of the step in flight
  std::uint64_t steps_ = 0;
  std::vector<move_book> moves_;
  core::pool_record pool_;
  core::host_tier_record host_;
  std::uint64_t released_ = 0, releases_ = 0, answers_ = 0;
  bool time_moved_ = false;
  std::vector<core::request_id> failed_;
  std::string broken_;
};

}  // namespace troupe::sim
