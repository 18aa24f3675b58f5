// Which lease holds which KV block. Owned by the allocator actor; the only place where a block
// changes its state. Knows nothing of requests' lives, steps or clocks. Copyable and hashable.
//
//   free         held by no lease, content unknown
//   leased       held by one lease, or by several that share its tokens
//   cached       held by no lease; its tokens can be found; evicted when blocks are short, longest
//                unused first
//   quarantined  was leased, but to no lease the scheduler knows: never used again
//
// Conservation, checked from the structures themselves: free + leased + cached + quarantined =
// total. Blocks being moved are leased ones.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "actors/api/kv_audit.hpp"
#include "actors/core/blocks/prefix_index.hpp"
#include "actors/core/events.hpp"

namespace troupe::core {

struct ledger_options {
  std::uint32_t total_blocks = 0;
  std::uint32_t block_size = 16;
  bool prefix_caching = true;
  bool operator==(const ledger_options&) const = default;
};

class block_ledger {
 public:
  explicit block_ledger(ledger_options);

  struct grant {
    std::vector<block_id> blocks;  ///< those found in the cache first
    std::uint32_t cached = 0;      ///< how many were found; of a fork: how many others can find
    std::optional<block_id> source = {};  ///< of a fork that copies
    bool operator==(const grant&) const = default;
  };
  /// Adds `count` blocks to the lease (which may be new), those found in the cache included.
  /// Nullopt, and nothing changed, when fewer than `keep_free` would stay free or cached.
  std::optional<grant> reserve(const core::reserve&);

  /// A new lease that shares the parent's first blocks, and keeps the one behind them from being
  /// given away when it is to be copied. None, and nothing changed: too few blocks are left, or the
  /// parent does not hold what is asked for, or the child is not new.
  std::optional<grant> fork(const core::fork_lease&);
  /// The copy is made: the source block is the child's no longer. The number of blocks that are
  /// free or cached by this; none: the lease keeps no source.
  std::optional<std::uint32_t> drop_source(lease_id);

  /// The lease's next blocks are computed and can be found from now on, unless the lease was
  /// reserved without a prefix query or the chain before them has left the cache. False, and
  /// nothing changed: out of order, of an unknown lease, or not a whole number of blocks.
  bool publish(const core::publish&);

  struct give_back {
    std::uint32_t held = 0;    ///< blocks the lease held
    std::uint32_t usable = 0;  ///< of those, free or cached now
    bool operator==(const give_back&) const = default;
  };
  /// Takes back everything the lease holds. A lease that holds nothing (denied, or released before)
  /// counts as an empty release: normal after a cancel between reserve and denial.
  give_back release(const core::release&);

  /// Closes the leases that are not among `live` (sorted) and quarantines the blocks that they
  /// alone held; returns their number.
  std::uint32_t quarantine_unknown(const std::vector<lease_id>& live);

  block_counts counts() const;
  /// Only the sums of check(), in constant time: after every event, in production too.
  bool conserved() const;
  /// Per block: its state and holders. For the audit endpoint.
  using place = block_place;
  using census_line = block_census_line;
  std::vector<census_line> census() const;
  /// Blocks of the lease; 0: it holds none.
  std::uint32_t held_by(lease_id) const;
  /// Leases that hold blocks and are not among `live` (sorted): what quarantine_unknown() would
  /// take.
  std::vector<lease_id> unknown(const std::vector<lease_id>& live) const;

  /// The broken invariant as text; empty: none. Visits every block.
  std::string check() const;
  bool operator==(const block_ledger&) const = default;
  /// Everything that decides its answers; see state_hash.
  void add_to(state_hash&) const;

 private:
  struct holding {
    std::vector<block_id> blocks;
    std::optional<cache_scope> scope;  // none: what it publishes cannot be found
    std::uint32_t found = 0;           // leading blocks that were in the cache already
    std::uint32_t published = 0;       // leading blocks that are computed
    node_id tail = 0;                  // node of the last published block
    std::optional<block_id> source;    // kept for a copy: counted among its users, not its blocks
    bool operator==(const holding&) const = default;
  };

  prefix_index::hit look_up(const prefix_query&, std::uint32_t count) const;
  block_id take_free();
  /// One user less. True: it had no other, and is free or cached now.
  bool let_go(block_id, bool forget);
  void evict_one();
  void make_idle(block_id);
  void no_longer_idle(block_id);
  /// Takes the block and what follows it out of the cache; those without a holder become free.
  void uncache(block_id);

  ledger_options options_;
  std::vector<block_id> free_;  // a stack: last freed, first used, while still in the CPU's caches
  std::map<lease_id, holding> leases_;
  std::vector<std::uint32_t> users_;        // per block: leases that hold it
  std::map<std::uint64_t, block_id> idle_;  // cached blocks, longest unused first
  std::vector<std::uint64_t> idle_since_;   // per block: its key in idle_, 0 when not there
  prefix_index index_;
  std::vector<block_id> quarantined_;
  std::uint32_t leased_ = 0;  // blocks with users
  std::uint64_t uses_ = 0;    // counts up: the clock of idle_
  std::uint64_t allocated_total_ = 0, released_total_ = 0, quarantined_total_ = 0;
  std::uint64_t empty_releases_ = 0, evicted_total_ = 0;
};

}  // namespace troupe::core
