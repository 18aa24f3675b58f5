// What other threads see of the scheduler without a message: health and drain read it when the
// scheduler's mailbox is slow or its actor is gone. Written by the scheduler's shell and the
// runtime.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>

#include "actors/api/generation.hpp"

namespace troupe {

struct scheduler_gauges {
  std::atomic<std::uint32_t> running{0}, waiting{0};
  std::atomic<core::time_us> progress_at{0};  ///< last step retired, or work began
  std::atomic<bool> busy{false};
  std::atomic<bool> draining{false}, stopped{false}, failed{false};

  core::engine_health health(core::time_us now) const;

  /// Sets `stopped` or `failed`: wakes wait_over(), and calls what on_over() was given.
  void set_over(std::atomic<bool>& flag);
  /// Until one of the two is set. False: the time was over first.
  bool wait_over(std::chrono::milliseconds at_most);
  void on_over(const std::function<void()>&);

 private:
  std::mutex over_mutex_;
  std::condition_variable over_changed_;
  std::function<void()> on_over_;
};

}  // namespace troupe
