#include "actors/scheduler/scheduler_gauges.hpp"

#include <algorithm>

namespace troupe {

core::engine_health scheduler_gauges::health(core::time_us now) const {
  core::engine_health seen;
  seen.failed = failed;
  seen.draining = draining;
  seen.running = running;
  seen.waiting = waiting;
  if (busy)
    seen.stalled_us = static_cast<std::uint64_t>(std::max<core::time_us>(0, now - progress_at));
  return seen;
}

void scheduler_gauges::set_over(std::atomic<bool>& flag) {
  std::function<void()> call;
  {
    const std::lock_guard lock(over_mutex_);
    flag = true;
    call = on_over_;
  }
  over_changed_.notify_all();
  if (call) call();
}

bool scheduler_gauges::wait_over(std::chrono::milliseconds at_most) {
  std::unique_lock lock(over_mutex_);
  return over_changed_.wait_for(lock, at_most, [this] { return stopped || failed; });
}

void scheduler_gauges::on_over(const std::function<void()>& call) {
  bool over = false;
  {
    const std::lock_guard lock(over_mutex_);
    on_over_ = call;
    over = stopped || failed;
  }
  if (over && call) call();
}

}  // namespace troupe
