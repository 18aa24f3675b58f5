#include "actors/embedding/pool_watch.hpp"

namespace troupe {

core::pool_record pool_watch::pool() const {
  const std::lock_guard lock(mutex_);
  return pool_;
}

std::vector<std::string> pool_watch::violations() const {
  const std::lock_guard lock(mutex_);
  return violations_;
}

bool pool_watch::wait_whole(std::chrono::milliseconds at_most) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, at_most, [this] {
    return pool_.used == 0 && pool_.leaked == 0 && pool_.quarantined == 0 &&
           released_ == pool_.allocated_total;
  });
}

void pool_watch::on_pool(const core::pool_record& record) {
  const std::lock_guard lock(mutex_);
  pool_ = record;
  changed_.notify_all();
}

void pool_watch::on_released(core::end_reason, bool, std::uint32_t blocks,
                             const core::pool_record& after) {
  const std::lock_guard lock(mutex_);
  pool_ = after;
  released_ += blocks;
  changed_.notify_all();
}

void pool_watch::on_violation(const std::string& invariant) {
  const std::lock_guard lock(mutex_);
  violations_.push_back(invariant);
}

}  // namespace troupe
