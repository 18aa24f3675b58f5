// What the offload mover understands. Only the scheduler talks to it, on one FIFO path, with one
// chunk of a lease under way at a time; a lease named by a move is pinned like one named by a step.
#pragma once
#include "actors/protocol/type_ids.hpp"

namespace troupe::protocol {

using mover_actor =
    caf::typed_actor<caf::reacts_to<core::move_out>,     // answer: moved, to the scheduler
                     caf::reacts_to<core::move_in>,      // answer: moved
                     caf::reacts_to<core::drop_parked>,  // no answer
                     caf::reacts_to<core::audit>,  // drops copies that no request owns; no answer
                     caf::reacts_to<kv_inquiry>>;  // calls back with its part

}  // namespace troupe::protocol
