// Which object id names which running generations, so that any connection can cancel by id; and a
// bounded memory of the ids that have ended, so that a late cancel differs from an unknown id.
// Thread-safe. Holds generations weakly.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "actors/api/generation.hpp"

namespace troupe::net {

enum class cancel_outcome : std::uint8_t { cancelled, already_over, unknown };

class cancel_registry {
 public:
  explicit cancel_registry(std::size_t remembered_max = 4096) : remembered_max_{remembered_max} {}

  void opened(const std::string& object_id, std::vector<std::weak_ptr<core::generation>>);
  void closed(const std::string& object_id);
  cancel_outcome cancel(const std::string& object_id, core::time_us seen_at);

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::vector<std::weak_ptr<core::generation>>> running_;
  std::unordered_set<std::string> over_;
  std::deque<std::string> over_in_order_;
  std::size_t remembered_max_;
};

}  // namespace troupe::net
