// What the executor understands: one step at a time. It keeps no request state, so there is nothing
// to cancel here.
#pragma once
#include "actors/protocol/type_ids.hpp"

namespace troupe::protocol {

using executor_actor =
    caf::typed_actor<caf::reacts_to<core::step_plan>,  // answer: step_done or step_failed, to the
                                                       // scheduler
                     caf::reacts_to<freeze>>;          // debugging: sleep before the next step

}  // namespace troupe::protocol
