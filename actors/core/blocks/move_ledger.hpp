// The copies on the host tier: which slots hold the blocks of which lease, with which checksums,
// and which move is in flight. Owned by the mover actor. Never touches a byte, decides nothing
// about a request, knows no clock. Copyable and hashable.
//
// Conservation, checked from the structures themselves: free + used = total. Slots that a move in
// flight names are neither freed nor given to another lease before it ends: the copy thread still
// reads or writes them.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "actors/api/kv_audit.hpp"
#include "actors/core/events.hpp"
#include "actors/core/state_hash.hpp"

namespace troupe::core {

/// Index of the room for one block on the host tier.
using host_slot = std::uint32_t;

/// Answer to a move: the copy to start, or why not. Unless ok, nothing has changed.
struct move_start {
  move_outcome outcome = move_outcome::ok;
  std::string violation;                 ///< not empty: the message broke its contract
  std::vector<host_slot> slots;          ///< one per block of the message
  std::vector<std::uint64_t> checksums;  ///< what the slots must hold; for a move in
};

class move_ledger {
 public:
  explicit move_ledger(std::uint32_t total_slots);

  /// The first chunk reserves `total` slots or is refused as host_full, so that a copy which has
  /// begun can always be completed; the next chunks follow where the last one ended.
  move_start begin_out(const move_out&);
  /// The chunk is over, with one checksum per block. A failed one frees all slots of its lease,
  /// because a copy with a gap is of no use. False: late or repeated, counted and ignored.
  bool end_out(move_id, bool ok, const std::vector<std::uint64_t>& checksums);

  /// Of an unknown copy: `failed`.
  move_start begin_in(const move_in&);
  /// However it went: the copy stays until it is dropped. False: late or repeated.
  bool end_in(move_id);

  bool under_way(move_id) const;

  /// Frees the copy's slots and returns their number; drops of unknown copies are counted. A copy
  /// with a move in flight, which must not be dropped, is freed when that move ends.
  std::uint32_t drop(lease_id);
  /// Drops all copies that are not among `parked` (sorted) and have no move in flight; returns the
  /// number of their slots.
  std::uint32_t drop_unknown(const std::vector<lease_id>& parked);

  move_counts counts() const;
  /// Per copy, for the audit.
  using census_line = parked_census_line;
  std::vector<census_line> census() const;

  /// The broken invariant as text; empty: none.
  std::string check() const;
  bool operator==(const move_ledger&) const = default;
  /// Everything that decides its answers; see state_hash.
  void add_to(state_hash&) const;

 private:
  struct copy {
    std::vector<host_slot> slots;
    std::vector<std::uint64_t> checksums;  // of the filled slots, which come first
    move_id move;                          // in flight, or none
    bool out = false;                      // its direction
    std::uint32_t first = 0, count = 0;    // the blocks it names
    bool dropped = false;                  // to be freed when the move ends
    bool operator==(const copy&) const = default;
  };
  using copies = std::map<lease_id, copy>;

  copies::iterator find(move_id);
  copies::iterator free(copies::iterator);  // the next one
  std::string fault(const move_out&) const;
  std::string fault(const move_in&) const;
  move_start start(copy&, move_id, bool out, std::uint32_t first, std::size_t count);

  std::uint32_t total_;
  std::vector<host_slot>
      free_;  // a stack: last freed, first used, so that untouched memory stays untouched
  copies copies_;
  std::uint64_t reserved_total_ = 0, freed_total_ = 0, unknown_drops_ = 0, stale_ends_ = 0;
};

}  // namespace troupe::core
