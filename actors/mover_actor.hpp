// The offload mover: copies chunks of a preempted request's KV blocks to the host tier and back,
// with a checksum taken on the way out and verified before the way in. A move_ledger behind a
// mailbox; answers the scheduler alone. Owns no lease and never decides what is moved. Detached in
// production: verifying a chunk keeps its thread for a millisecond.
#pragma once
#include <memory>

#include "actors/api/observer.hpp"
#include "actors/host_memory.hpp"
#include "actors/protocol/mover.hpp"
#include "actors/protocol/scheduler.hpp"
#include "gpu/backend.hpp"

namespace troupe {

/// What the scheduler sees of it, and the end of a copy, which comes from the backend's copy
/// thread.
using mover_shell = protocol::mover_actor::extend<caf::reacts_to<core::moved>>;

/// `host` has slots of the device's block size. `watcher` must outlive the actor system; a copy may
/// outlive the actor.
mover_shell::behavior_type mover_actor(mover_shell::pointer self,
                                       const std::shared_ptr<gpu::backend>& device,
                                       const std::shared_ptr<host_memory>& host,
                                       const protocol::scheduler_actor& scheduler,
                                       core::observer* watcher);

}  // namespace troupe
