#include "actors/core/block_ledger.hpp"

#include <algorithm>

#include "actors/core/state_hash.hpp"

namespace troupe::core {

block_ledger::block_ledger(std::uint32_t total_blocks) : total_(total_blocks) {
  free_.reserve(total_);
  for (std::uint32_t b = total_; b > 0; --b) free_.push_back(b - 1);  // block 0 goes out first
}

std::optional<std::vector<block_id>> block_ledger::reserve(lease_id lease, std::uint32_t count,
                                                           std::uint32_t keep_free) {
  if (std::uint64_t{count} + keep_free > free_.size()) return std::nullopt;
  std::vector<block_id> fresh;
  fresh.reserve(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    fresh.push_back(free_.back());
    free_.pop_back();
  }
  if (count > 0) {
    auto& held = leases_[lease];
    held.insert(held.end(), fresh.begin(), fresh.end());
  }
  allocated_total_ += count;
  return fresh;
}

std::uint32_t block_ledger::release(lease_id lease) {
  const auto found = leases_.find(lease);
  if (found == leases_.end()) {
    ++empty_releases_;
    return 0;
  }
  const auto count = static_cast<std::uint32_t>(found->second.size());
  free_.insert(free_.end(), found->second.rbegin(), found->second.rend());
  leases_.erase(found);
  released_total_ += count;
  return count;
}

std::uint32_t block_ledger::quarantine_unknown(const std::vector<lease_id>& live) {
  std::uint32_t count = 0;
  for (auto it = leases_.begin(); it != leases_.end();) {
    if (std::binary_search(live.begin(), live.end(), it->first)) {
      ++it;
      continue;
    }
    count += static_cast<std::uint32_t>(it->second.size());
    quarantined_.insert(quarantined_.end(), it->second.begin(), it->second.end());
    it = leases_.erase(it);
  }
  return count;
}

block_counts block_ledger::counts() const {
  block_counts c;
  c.total = total_;
  c.free = static_cast<std::uint32_t>(free_.size());
  for (const auto& [lease, blocks] : leases_) c.leased += static_cast<std::uint32_t>(blocks.size());
  c.quarantined = static_cast<std::uint32_t>(quarantined_.size());
  c.allocated_total = allocated_total_;
  c.released_total = released_total_;
  c.empty_releases = empty_releases_;
  return c;
}

std::string block_ledger::check() const {
  std::vector<bool> seen(total_, false);
  std::string broken;
  const auto visit = [&](const std::vector<block_id>& blocks, const char* where) {
    for (const block_id b : blocks) {
      if (!broken.empty()) return;
      if (b >= total_) {
        broken = "block " + std::to_string(b) + " in " + where + " is outside the pool";
      } else if (seen[b]) {
        broken = "block " + std::to_string(b) + " in " + where + " has two places";
      } else {
        seen[b] = true;
      }
    }
  };
  visit(free_, "free");
  for (const auto& [lease, blocks] : leases_) {
    if (blocks.empty()) return "a lease without blocks is kept";
    visit(blocks, "a lease");
  }
  visit(quarantined_, "quarantine");
  if (!broken.empty()) return broken;
  const auto c = counts();
  if (c.free + c.leased + c.cached + c.quarantined != c.total)
    return "free + leased + cached + quarantined != total";
  if (c.allocated_total != c.released_total + c.leased + c.quarantined)
    return "allocated != released + leased + quarantined";
  return {};
}

std::uint64_t block_ledger::hash() const {
  state_hash h;
  h.add(total_).add(free_).add(quarantined_);
  for (const auto& [lease, blocks] : leases_) h.add(lease).add(blocks);
  return h.add(allocated_total_).add(released_total_).add(empty_releases_).value();
}

}  // namespace troupe::core
