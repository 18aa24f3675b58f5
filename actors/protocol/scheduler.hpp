// What the scheduler understands; it alone ends requests and writes a lease's life.
#pragma once
#include "actors/protocol/allocator.hpp"
#include "actors/protocol/executor.hpp"
#include "actors/protocol/mover.hpp"
#include "actors/protocol/type_ids.hpp"

namespace troupe::protocol {

/// The runtime's first message: whom the scheduler drives. If one of them dies, the scheduler stops
/// too.
struct scheduler_neighbours {
  allocator_actor allocator;
  executor_actor executor;
  mover_actor mover;  // none without a host tier
};

using scheduler_actor =
    caf::typed_actor<caf::reacts_to<scheduler_neighbours>,         // runtime, once, first
                     caf::reacts_to<core::submit, session_actor>,  // session: admit or refuse me
                     caf::reacts_to<core::cancel>,  // session: end me; late and repeated is normal
                     caf::reacts_to<core::reader_stalled>,  // session: its outbound limit is
                                                            // reached
                     caf::reacts_to<core::reader_resumed>,  // session
                     caf::reacts_to<core::granted>,         // allocator
                     caf::reacts_to<core::denied>,          // allocator
                     caf::reacts_to<core::released>,        // allocator
                     caf::reacts_to<core::moved>,           // mover
                     caf::reacts_to<leaked>,                // allocator: what the audit found
                     caf::reacts_to<core::step_done>,       // executor
                     caf::reacts_to<core::step_failed>,     // executor
                     caf::reacts_to<core::tick>,            // itself, while there is work
                     caf::reacts_to<core::drain>,           // runtime: refuse new requests
                     caf::reacts_to<core::stop>,            // runtime: end every request
                     caf::reacts_to<kv_inquiry>>;  // debugging: goes on to allocator and mover

}  // namespace troupe::protocol
