// The stopwatch of the CPU device: the thread that drives it stamps the time after every fork and
// join, so a step's laps add up to the step. Steps are counted under a lock once each; read() is
// for any thread. Touches no kernel.
#pragma once
#include <chrono>
#include <mutex>
#include <vector>

#include "gpu/device_profile.hpp"

namespace troupe::gpu {

struct kernel_lap {
  kernel_kind kind = kernel_kind::other;
  kernel_cost cost;
};

class step_profile {
 public:
  explicit step_profile(const machine_limits& limits) {
    total_.on = true;
    total_.limits = limits;
  }

  void begin_step() {
    mark_ = clock::now();
    step_ = {};
    if (ran_) step_.idle_nanoseconds = nanoseconds(mark_ - ended_);
  }
  /// The time since the last lap was spent on `kind`; `work` says what was done in it.
  void lap(kernel_kind kind, kernel_cost work) {
    const auto now = clock::now();
    work.nanoseconds = nanoseconds(now - mark_);
    mark_ = now;
    step_[kind] += work;
    if (laps_) laps_->push_back({kind, work});
  }
  void end_step(std::uint64_t rows);
  /// Also keeps each lap, in order; for measurements, which compare them one by one.
  void keep_laps(std::vector<kernel_lap>& laps) { laps_ = &laps; }
  device_profile read() const;

 private:
  using clock = std::chrono::steady_clock;
  static std::uint64_t nanoseconds(clock::duration d) {
    return static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(d).count());
  }

  clock::time_point mark_, ended_;
  bool ran_ = false;
  std::vector<kernel_lap>* laps_ = nullptr;
  device_profile step_;
  mutable std::mutex mutex_;  // guards total_
  device_profile total_;
};

}  // namespace troupe::gpu
