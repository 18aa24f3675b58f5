// What configuration, model and device come to: the scheduler's limits, the card of the model, and
// whether there is a host tier. Plain functions; no actor is needed to ask.
#pragma once
#include "actors/api/generation.hpp"
#include "actors/core/scheduler_limits.hpp"
#include "config/runtime_config.hpp"
#include "gpu/backend.hpp"
#include "gpu/model/loaded_model.hpp"

namespace troupe {

core::scheduler_limits make_limits(const runtime_config&, const gpu::loaded_model&,
                                   const gpu::device_info&);

/// What the served model says about itself. `created` is now.
core::model_card make_card(const runtime_config&, const gpu::loaded_model&,
                           const core::scheduler_limits&);

/// Preempted sequences go to a host tier.
bool parks(const runtime_config&);

/// Options count in seconds, the actors in milliseconds.
std::uint64_t to_ms(double seconds);

}  // namespace troupe
