// Monitors the engine's actors: the first of them to die sets `failed` and calls `on_fatal`, once.
#pragma once
#include <caf/event_based_actor.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "actors/api/observer.hpp"
#include "actors/scheduler/scheduler_gauges.hpp"

namespace troupe {

/// `watched`: scheduler, allocator, executor and, with a host tier, mover.
caf::behavior supervisor(caf::event_based_actor* self,
                         const std::vector<caf::strong_actor_ptr>& watched,
                         const std::shared_ptr<scheduler_gauges>& gauges, core::observer* watcher,
                         const std::function<void(const std::string&)>& on_fatal);

}  // namespace troupe
