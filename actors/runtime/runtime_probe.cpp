#include "actors/runtime/runtime_probe.hpp"

#include <caf/actor_cast.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <utility>

namespace troupe {

runtime_probe::runtime_probe(const runtime_actors& actors,
                             const protocol::scheduler_actor& scheduler,
                             const protocol::scheduler_neighbours& driven)
    : actors_(actors),
      scheduler_(caf::actor_cast<caf::weak_actor_ptr>(scheduler)),
      allocator_(caf::actor_cast<caf::weak_actor_ptr>(driven.allocator)),
      executor_(caf::actor_cast<caf::weak_actor_ptr>(driven.executor)),
      mover_(caf::actor_cast<caf::weak_actor_ptr>(driven.mover)) {}

void runtime_probe::audit(std::function<void(core::kv_part)> answer) {
  if (const auto scheduler = caf::actor_cast<protocol::scheduler_actor>(scheduler_))
    caf::anon_send(scheduler, protocol::kv_inquiry{std::move(answer)});
}

// Straight to the executor, past the scheduler: the point is to hold the step that is planned next.
void runtime_probe::freeze(std::uint32_t ms) {
  if (const auto executor = caf::actor_cast<protocol::executor_actor>(executor_))
    caf::anon_send(executor, protocol::freeze{ms});
}

void runtime_probe::crash(core::engine_part which) {
  const auto& weak = which == core::engine_part::scheduler   ? scheduler_
                     : which == core::engine_part::allocator ? allocator_
                     : which == core::engine_part::executor  ? executor_
                                                             : mover_;
  caf::strong_actor_ptr victim = weak.lock();  // dropped outside of while_open: it takes its lock
  if (victim) actors_.while_open([&] { caf::anon_send_exit(victim, caf::exit_reason::kill); });
}

}  // namespace troupe
