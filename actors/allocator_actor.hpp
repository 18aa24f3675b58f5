// The KV block allocator: a block_ledger behind a mailbox. Answers the scheduler only and reports
// its counts to the observer. Pooled, not detached: every message is handled in microseconds.
#pragma once
#include "actors/api/observer.hpp"
#include "actors/core/blocks/block_ledger.hpp"
#include "actors/protocol/scheduler.hpp"

namespace troupe {

/// `watcher` must outlive the actor system. `forget_release` plants a leak, so that tests can see
/// the audit find one: the release with that number (counted from 1, of leases that hold blocks) is
/// dropped; 0: none.
protocol::allocator_actor::behavior_type allocator_actor(protocol::allocator_actor::pointer self,
                                                         const core::ledger_options& options,
                                                         std::uint32_t forget_release,
                                                         const protocol::scheduler_actor& scheduler,
                                                         core::observer* watcher);

}  // namespace troupe
