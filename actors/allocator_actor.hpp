// The KV block allocator: a block_ledger behind a mailbox. Answers the scheduler alone, tells the observer its counts.
#pragma once
#include "actors/core/observer.hpp"
#include "actors/protocol/scheduler.hpp"

namespace troupe {

/// `watcher` must outlive the actor system.
protocol::allocator_actor::behavior_type allocator_actor(protocol::allocator_actor::pointer self,
                                                         std::uint32_t total_blocks,
                                                         const protocol::scheduler_actor& scheduler,
                                                         core::observer* watcher);

}  // namespace troupe
