// What the KV block allocator understands. Only the scheduler talks to it, on one FIFO path.
#pragma once
#include "actors/protocol/type_ids.hpp"

namespace troupe::protocol {

using allocator_actor = caf::typed_actor<
    caf::reacts_to<core::reserve>,   // answer: granted or denied, to the scheduler
    caf::reacts_to<core::release>,   // answer: released
    caf::reacts_to<core::audit>>;    // quarantines what no live lease owns; no answer

}  // namespace troupe::protocol
