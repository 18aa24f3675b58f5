// The KV block allocator: a block_ledger behind a mailbox. Answers the scheduler alone, tells the
// observer its counts.
#pragma once
#include "actors/api/observer.hpp"
#include "actors/core/blocks/block_ledger.hpp"
#include "actors/protocol/scheduler.hpp"

namespace troupe {

/// `watcher` must outlive the actor system. `forget_release`: plants a leak, the release with that
/// number (from 1) of a lease that holds blocks is lost; 0: none.
protocol::allocator_actor::behavior_type allocator_actor(protocol::allocator_actor::pointer self,
                                                         const core::ledger_options& options,
                                                         std::uint32_t forget_release,
                                                         const protocol::scheduler_actor& scheduler,
                                                         core::observer* watcher);

}  // namespace troupe
