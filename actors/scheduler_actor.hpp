// The scheduler: a scheduler_machine behind a mailbox. Translates messages to events and effects to
// messages; decides nothing. Monitors sessions (a session that dies is a cancel) and allocator,
// executor and mover (when one of them dies, so does the scheduler: leases cannot be repaired one
// by one).
#pragma once
#include <memory>

#include "actors/api/observer.hpp"
#include "actors/core/scheduler_machine.hpp"
#include "actors/protocol/scheduler.hpp"
#include "actors/scheduler/scheduler_gauges.hpp"

namespace troupe {

protocol::scheduler_actor::behavior_type scheduler_actor(
    protocol::scheduler_actor::pointer self, const core::scheduler_limits& limits,
    const std::shared_ptr<scheduler_gauges>& gauges, core::observer* watcher);

}  // namespace troupe
