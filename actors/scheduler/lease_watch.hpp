// What the scheduler's shell watches of leases for the metrics and for the report of a leak:
// the last events of each, and how long a release takes from its cause to the allocator's word.
// Time comes in; knows no actor; decides nothing.
#pragma once
#include <string>
#include <unordered_map>
#include <vector>

#include "actors/api/observer.hpp"
#include "actors/core/blocks/lease_history.hpp"
#include "actors/core/scheduler_machine.hpp"
#include "actors/protocol/allocator.hpp"

namespace troupe {

class lease_watch {
 public:
  explicit lease_watch(core::observer& watcher) : watcher_(watcher) {}

  /// Events and effects of the machine as they pass by; those that no overload names are not kept.
  template <class Any>
  void note(const Any&, core::time_us) {}
  void note(const core::cancel&, core::time_us);
  void note(const core::reader_stalled&, core::time_us);
  void note(const core::reader_resumed&, core::time_us);
  void note(const core::granted&, core::time_us);
  void note(const core::denied&, core::time_us);
  void note(const core::released&, core::time_us);
  void note(const core::admitted&, core::time_us);
  void note(const core::reserve&, core::time_us);
  void note(const core::fork_lease&, core::time_us);
  void note(const core::drop_source&, core::time_us);
  void note(const core::trim&, core::time_us);
  void note(const core::release&, core::time_us);
  void note(const core::move_out&, core::time_us);
  void note(const core::move_in&, core::time_us);
  void note(const core::drop_parked&, core::time_us);
  void note(const core::preempted&, core::time_us);
  void note(const core::step_plan&, core::time_us);
  void note(const core::ended&, core::time_us);
  std::vector<core::kv_event> events_of(core::request_id request) const {
    return history_.of(request);
  }

  /// The release is on its way; what caused it was seen at `cause`.
  void await_release(core::lease_id lease, core::time_us cause) { awaited_[lease] = cause; }
  /// Only now are the blocks really free: the latency of the release, when one is awaited, is
  /// reported.
  void confirm_release(const core::released&, core::time_us now);
  /// What the audit found, in words: each lease with its last events, which is what is needed to
  /// find the bug that leaked it.
  std::string on_leaked(const protocol::leaked&);

 private:
  core::observer& watcher_;
  core::lease_history history_;
  std::unordered_map<core::lease_id, core::time_us> awaited_;
};

}  // namespace troupe
