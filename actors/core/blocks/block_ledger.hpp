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
//
// Layers of one cache policy form a group. A lease holds its tokens in rows: one block of each
// group for `block_size` tokens. Each group has a range of the block ids, as long as the others',
// and blocks of its own to give; row r of group g is entry r * groups + g of a block table. Rows
// are reserved, found, published and shared whole; a group whose layers look back over a window
// only gives its blocks of the first rows back alone (`trim`).
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "actors/api/kv_audit.hpp"
#include "actors/core/blocks/prefix_index.hpp"
#include "actors/core/events.hpp"

namespace troupe::core {

struct ledger_options {
  std::uint32_t total_blocks = 0;  ///< of all groups
  std::uint32_t block_size = 16;
  bool prefix_caching = true;
  std::uint32_t groups = 1;
  bool operator==(const ledger_options&) const = default;
};

class block_ledger {
 public:
  explicit block_ledger(ledger_options);

  struct grant {
    std::vector<block_id> blocks;        ///< row by row, those found in the cache first
    std::uint32_t cached = 0;            ///< rows that were found; of a fork: that others can find
    std::vector<block_id> sources = {};  ///< of a fork that copies: one block of each group
    bool operator==(const grant&) const = default;
  };
  /// Adds `count` rows to the lease (which may be new), those found in the cache included.
  /// Nullopt, and nothing changed, when in a group fewer than `keep_free` blocks would stay free or
  /// cached.
  std::optional<grant> reserve(const core::reserve&);

  /// A new lease that shares the parent's first rows (without the blocks that were trimmed), and
  /// keeps the row behind them from being given away when it is to be copied. None, and nothing
  /// changed: too few blocks are left, or the parent does not hold what is asked for, or the child
  /// is not new.
  std::optional<grant> fork(const core::fork_lease&);
  /// The copy is made: the source blocks are the child's no longer. The number of blocks that are
  /// free or cached by this; none: the lease keeps no source.
  std::optional<std::uint32_t> drop_source(lease_id);

  /// The lease's next rows are computed and can be found from now on, unless the lease was reserved
  /// without a prefix query, the chain before them has left the cache, or a block of them is
  /// trimmed. False, and nothing changed: out of order, of an unknown lease, or not a whole number
  /// of rows.
  bool publish(const core::publish&);

  /// Takes back the group's blocks of the lease's first rows; those already trimmed stay so. The
  /// number of blocks that are free or cached by this. None, and nothing changed: an unknown lease
  /// or group, or not fewer rows than the lease has.
  std::optional<std::uint32_t> trim(const core::trim&);

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
    std::vector<block_id> blocks;      // row by row; no_block where trimmed
    std::uint32_t trimmed = 0;         // how many those are
    std::optional<cache_scope> scope;  // none: what it publishes cannot be found
    std::uint32_t found = 0;           // leading rows that were in the cache already
    std::uint32_t published = 0;       // leading rows that are computed
    node_id tail = 0;                  // node of the last published row
    std::vector<block_id> sources;     // kept for a copy: counted among its users, not its blocks
    std::uint32_t held() const { return static_cast<std::uint32_t>(blocks.size()) - trimmed; }
    bool operator==(const holding&) const = default;
  };
  /// A group's blocks that a lease may get.
  struct group_pool {
    std::vector<block_id> free;  // a stack: last freed, first used, while still in the CPU's caches
    std::map<std::uint64_t, block_id> idle;  // cached blocks, longest unused first
    std::size_t usable() const { return free.size() + idle.size(); }
    bool operator==(const group_pool&) const = default;
  };

  prefix_index::hit look_up(const prefix_query&, std::uint32_t count) const;
  std::uint32_t group_of(block_id b) const { return b / (options_.total_blocks / options_.groups); }
  std::uint32_t rows_of(const holding& held) const {
    return static_cast<std::uint32_t>(held.blocks.size()) / options_.groups;
  }
  std::span<const block_id> row(const holding& held, std::uint32_t index) const {
    return std::span(held.blocks).subspan(std::size_t{index} * options_.groups, options_.groups);
  }
  void add_user(block_id);
  void take_row(std::vector<block_id>& to);
  /// One user less for each; the number of those that had no other and are free or cached now. The
  /// one place where a leased block becomes so. `forget`: the blocks are those of one row, which
  /// leaves the cache unless others use it or follow it.
  std::uint32_t let_go(std::span<const block_id>, bool forget);
  void make_idle(block_id);
  void no_longer_idle(block_id);
  /// Takes the block's row and what follows it out of the cache; the idle ones become free.
  void uncache(block_id);
  template <class Count>
  std::size_t sum(Count) const;

  ledger_options options_;
  std::vector<group_pool> pools_;  // one per group
  std::map<lease_id, holding> leases_;
  std::vector<std::uint32_t> users_;       // per block: leases that hold it
  std::vector<std::uint64_t> idle_since_;  // per block: its key in its group's `idle`, 0: not there
  prefix_index index_;
  std::vector<block_id> quarantined_;
  std::uint32_t leased_ = 0;  // blocks with users
  std::uint64_t uses_ = 0;    // counts up: the clock of `idle`
  std::uint64_t allocated_total_ = 0, released_total_ = 0, quarantined_total_ = 0;
  std::uint64_t empty_releases_ = 0, evicted_total_ = 0;
};

}  // namespace troupe::core
