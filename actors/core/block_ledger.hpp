// Who holds which KV block: free, leased, quarantined. Owned by the allocator actor; the only place where a block
// changes hands. Knows nothing of requests' lives, steps or clocks. Copyable and hashable.
//
// Conservation, checked from the structures themselves: free + leased + cached + quarantined = total.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/core/ids.hpp"

namespace troupe::core {

struct block_counts {
  std::uint32_t total = 0, free = 0, leased = 0, cached = 0, quarantined = 0;
  std::uint64_t allocated_total = 0, released_total = 0, empty_releases = 0;
  bool operator==(const block_counts&) const = default;
};

class block_ledger {
 public:
  explicit block_ledger(std::uint32_t total_blocks);

  /// Adds `count` blocks to `lease` (which may be new), unless fewer than `keep_free` would stay free.
  /// Answers the new blocks, or nothing: then nothing changed.
  std::optional<std::vector<block_id>> reserve(lease_id lease, std::uint32_t count, std::uint32_t keep_free);

  /// Gives back everything `lease` holds. A lease that holds nothing (denied, or released before) answers 0 and counts
  /// as an empty release: that is how a cancel between ask and denial looks.
  std::uint32_t release(lease_id lease);

  /// Leases held here that are not among `live` (sorted): the number of their blocks. Those blocks are quarantined.
  std::uint32_t quarantine_unknown(const std::vector<lease_id>& live);

  block_counts counts() const;
  /// Empty when sound; else the broken invariant in words.
  std::string check() const;
  bool operator==(const block_ledger&) const = default;
  std::uint64_t hash() const;

 private:
  std::uint32_t total_;
  std::vector<block_id> free_;                         // a stack: last freed, first used (warm)
  std::map<lease_id, std::vector<block_id>> leases_;
  std::vector<block_id> quarantined_;
  std::uint64_t allocated_total_ = 0, released_total_ = 0, empty_releases_ = 0;
};

}  // namespace troupe::core
