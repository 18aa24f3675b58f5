#include "actors/runtime_probe.hpp"

#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <utility>

namespace troupe {

runtime_probe::runtime_probe(protocol::scheduler_actor scheduler, protocol::executor_actor executor)
    : scheduler_(std::move(scheduler)), executor_(std::move(executor)) {}

void runtime_probe::audit(std::function<void(core::kv_part)> answer) {
  caf::anon_send(scheduler_, protocol::kv_inquiry{std::move(answer)});
}

void runtime_probe::freeze(std::uint32_t ms) { caf::anon_send(executor_, protocol::freeze{ms}); }

}  // namespace troupe
