// Troupe inside a CAF program: three calls (README.md in this folder has the whole program). The
// runtime itself is actors/runtime.hpp, the messages are in actors/protocol/engine.hpp. Programs
// without CAF use callback_client.hpp or answer_future.hpp.
#pragma once
#include "actors/protocol/engine.hpp"
#include "actors/runtime.hpp"

namespace caf {
class actor_system_config;
}

namespace troupe {

/// 1. Before the system is made: registers Troupe's message types and sets scheduler.policy to
/// "sharing". A host may set "stealing" afterwards: everything works, but an idle worker polls with
/// sleeps, so messages may arrive milliseconds later. "testing" is refused by the runtime. The
/// number of threads is the host's choice. Threads that the process makes
/// from here on without a stack size of their own get 8 MiB where `ulimit -s` would give them less:
/// a step needs it (thread_stack_bytes).
void add_to(caf::actor_system_config&);

// 2. runtime engine(system, config, model, device, watcher, on_fatal);
//    Refuses a system without 1 (std::invalid_argument). Destroy it before the system, and not from
//    an actor's handler: it waits for its actors. A system that ends first ends them all itself,
//    each request with its reason, and waits for the step in flight; the runtime can only be
//    destroyed after that.

/// 3. The CAF entry point: an actor that understands submit_request and cancel_request. The same
/// actor each time; a null handle once the system is gone. It ends with the runtime: monitor it to
/// learn of that.
protocol::engine_actor actor_of(runtime&);

}  // namespace troupe
