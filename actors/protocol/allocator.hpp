// What the KV block allocator understands. Only the scheduler talks to it, on one FIFO path.
#pragma once
#include "actors/protocol/type_ids.hpp"

namespace troupe::protocol {

using allocator_actor =
    caf::typed_actor<caf::reacts_to<core::reserve>,  // answer: granted or denied, to the scheduler
                     caf::reacts_to<core::fork_lease>,   // likewise
                     caf::reacts_to<core::drop_source>,  // answer: released, if a block is free by
                                                         // it
                     caf::reacts_to<core::trim>,         // likewise
                     caf::reacts_to<core::publish>,  // these blocks are computed: others may find
                                                     // them; no answer
                     caf::reacts_to<core::release>,  // answer: released
                     caf::reacts_to<core::audit>,    // quarantines what no live lease owns; answer:
                                                     // leaked, if anything is
                     caf::reacts_to<kv_inquiry>>;    // calls back with its part

}  // namespace troupe::protocol
