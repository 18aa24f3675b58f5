#include "actors/runtime/runtime_probe.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <utility>

namespace troupe {

runtime_probe::runtime_probe(protocol::scheduler_actor scheduler,
                             const protocol::executor_actor& executor)
    : scheduler_(std::move(scheduler)), executor_(caf::actor_cast<caf::weak_actor_ptr>(executor)) {}

void runtime_probe::audit(std::function<void(core::kv_part)> answer) {
  caf::anon_send(scheduler_, protocol::kv_inquiry{std::move(answer)});
}

// Straight to the executor, past the scheduler: the point is to hold the step that is planned next.
void runtime_probe::freeze(std::uint32_t ms) {
  if (const auto executor = caf::actor_cast<protocol::executor_actor>(executor_))
    caf::anon_send(executor, protocol::freeze{ms});
}

}  // namespace troupe
