// The place of the offload mover: its messages are written down, no actor understands them yet. A lease named by a
// move is pinned like one named by a step: it goes back when the move ends, never before.
#pragma once
#include <cstdint>
#include <vector>

#include "actors/core/ids.hpp"

namespace troupe::protocol {

/// scheduler -> mover: copy these blocks of the lease to the host tier.
struct move_out {
  std::uint64_t operation = 0;
  core::lease_id lease;
  std::vector<core::block_id> blocks;
};
/// scheduler -> mover: copy the parked lease back into these blocks.
struct move_in {
  std::uint64_t operation = 0;
  core::lease_id lease;
  std::vector<core::block_id> blocks;
};
/// mover -> scheduler: the operation is over; the device no longer touches its blocks.
struct moved {
  std::uint64_t operation = 0;
  core::lease_id lease;
  bool ok = false;
};

}  // namespace troupe::protocol
