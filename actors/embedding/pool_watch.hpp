// An observer that keeps the KV pool's counts and nothing else: for programs that have no metrics
// of their own, and for seeing that every block is back.
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
  /// Invariants of the runtime that were violated; empty unless Troupe has a bug.
  std::vector<std::string> violations() const;
  /// Waits until no block is leased, leaked or in quarantine and as many were released as granted.
  /// False: that did not happen in time.
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
