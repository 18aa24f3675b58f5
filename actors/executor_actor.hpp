// The executor: turns a step plan into a batch, runs it on the backend, reports. Waits on nothing
// but its own step and keeps no request state. Detached in production; the backend is its own.
#pragma once
#include <memory>

#include "actors/api/observer.hpp"
#include "actors/protocol/scheduler.hpp"
#include "gpu/backend.hpp"

namespace troupe {

protocol::executor_actor::behavior_type executor_actor(protocol::executor_actor::pointer self,
                                                       const std::shared_ptr<gpu::backend>& device,
                                                       const protocol::scheduler_actor& scheduler,
                                                       core::observer* watcher);

}  // namespace troupe
