// The scheduler: a scheduler_machine behind a mailbox. Translates messages to events and effects to
// messages; decides nothing. Monitors sessions (a session that dies is a cancel) and allocator,
// executor and mover (when one of them dies, so does the scheduler: leases cannot be repaired one
// by one).
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>

#include "actors/api/observer.hpp"
#include "actors/core/scheduler_machine.hpp"
#include "actors/protocol/scheduler.hpp"

namespace troupe {

/// Read by health and drain from other threads.
struct scheduler_gauges {
  std::atomic<std::uint32_t> running{0}, waiting{0};
  std::atomic<core::time_us> progress_at{0};  ///< last step retired, or work began
  std::atomic<bool> busy{false};
  std::atomic<bool> draining{false}, stopped{false}, failed{false};

  /// Sets `stopped` or `failed`: wakes wait_over(), and calls what on_over() was given.
  void set_over(std::atomic<bool>& flag);
  /// Until one of the two is set. False: the time was over first.
  bool wait_over(std::chrono::milliseconds at_most);
  void on_over(std::function<void()>);

 private:
  std::mutex over_mutex_;
  std::condition_variable over_changed_;
  std::function<void()> on_over_;
};

protocol::scheduler_actor::behavior_type scheduler_actor(
    protocol::scheduler_actor::pointer self, const core::scheduler_limits& limits,
    const std::shared_ptr<scheduler_gauges>& gauges, core::observer* watcher);

}  // namespace troupe
