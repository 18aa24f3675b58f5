// An observer that keeps the KV pool's counts and nothing else: what a program without metrics
// gives its runtime, and how it sees that every block is back.
#pragma once
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <vector>

#include "actors/api/quiet_observer.hpp"

namespace troupe {

class pool_watch : public quiet_observer {
 public:
  core::pool_record pool() const;
  /// What the runtime reported of its own broken rules; empty in a sound program.
  std::vector<std::string> violations() const;
  /// No block is leased, lost or in quarantine, and as many were given back as given out. False:
  /// the time was over first.
  bool wait_whole(std::chrono::milliseconds at_most) const;

  void on_pool(const core::pool_record&) override;
  void on_released(core::end_reason, bool preempted, std::uint32_t blocks,
                   const core::pool_record& after) override;
  void on_violation(const std::string& invariant) override;

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  core::pool_record pool_;
  std::uint64_t released_ = 0;
  std::vector<std::string> violations_;
};

}  // namespace troupe
