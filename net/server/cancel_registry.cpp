#include "net/server/cancel_registry.hpp"

#include <utility>

namespace troupe::net {

void cancel_registry::opened(const std::string& object_id,
                             std::vector<std::weak_ptr<core::generation>> generations) {
  const std::lock_guard lock{mutex_};
  running_[object_id] = std::move(generations);
}

void cancel_registry::closed(const std::string& object_id) {
  const std::lock_guard lock{mutex_};
  // Called twice for most objects (last choice, then the connection): the first counts.
  if (running_.erase(object_id) == 0 || !over_.insert(object_id).second) return;
  over_in_order_.push_back(object_id);
  if (over_in_order_.size() > remembered_max_) {
    over_.erase(over_in_order_.front());
    over_in_order_.pop_front();
  }
}

cancel_outcome cancel_registry::cancel(const std::string& object_id, core::time_us seen_at) {
  std::vector<std::shared_ptr<core::generation>> generations;
  {
    const std::lock_guard lock{mutex_};
    const auto found = running_.find(object_id);
    if (found == running_.end())
      return over_.contains(object_id) ? cancel_outcome::already_over : cancel_outcome::unknown;
    for (const auto& weak : found->second)
      if (auto strong = weak.lock()) generations.push_back(std::move(strong));
  }
  // Outside the lock: an engine may end one at once, and that end comes back here.
  for (const auto& g : generations) g->cancel(core::end_reason::cancelled, seen_at);
  return cancel_outcome::cancelled;
}

}  // namespace troupe::net
