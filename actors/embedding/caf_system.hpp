// Troupe inside a CAF program: three calls. Everything else is actors/runtime.hpp (the runtime
// itself) and actors/protocol/engine.hpp (the messages). Programs without CAF use runtime.hpp with
// callback_client.hpp or answer_future.hpp.
#pragma once
#include "actors/protocol/engine.hpp"
#include "actors/runtime.hpp"

namespace caf {
class actor_system_config;
}

namespace troupe {

/// 1. Before the system is made: registers our message types and sets scheduler.policy to
/// "sharing", which wakes at once. A host may set "stealing" afterwards: everything works, messages
/// to an idle actor may come milliseconds later. "testing" is refused by the runtime. The number of
/// threads is the host's. Threads that the process makes from here on without a stack size of their
/// own get 8 MiB where `ulimit -s` would give them less: a step needs it (thread_stack_bytes).
void add_to(caf::actor_system_config&);

// 2. runtime engine(system, config, model, device, watcher, on_fatal);
//    Refuses a system without 1 (std::invalid_argument). Destroy it before the system, and not from
//    an actor's handler: it waits for its actors. A system that goes first ends them all by itself,
//    each request by name, and waits for the step in flight; the runtime then is an empty shell
//    that can be destroyed.

/// 3. The typed way in: submit_request, cancel_request. The same actor each time; a null handle
/// once the system is gone. It ends with the runtime: monitor it to learn of that.
protocol::engine_actor actor_of(runtime&);

}  // namespace troupe
