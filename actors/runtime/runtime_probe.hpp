// The one debugging entry of a runtime: audits, a device that stands still, a part that crashes.
// What the debugging endpoints and the tests of fail-stop use; messages to the actors, never
// waiting for an answer. Owned by the runtime; holds no state and no handle that keeps an actor's
// thread.
#pragma once
#include "actors/api/kv_audit.hpp"
#include "actors/protocol/scheduler.hpp"
#include "actors/runtime/runtime_actors.hpp"

namespace troupe {

class runtime_probe final : public core::engine_probe {
 public:
  /// `actors` must outlive it.
  runtime_probe(const runtime_actors& actors, const protocol::scheduler_actor& scheduler,
                const protocol::scheduler_neighbours& driven);
  void audit(std::function<void(core::kv_part)> answer) override;
  void freeze(std::uint32_t ms) override;
  void crash(core::engine_part which) override;

 private:
  const runtime_actors& actors_;
  caf::weak_actor_ptr scheduler_, allocator_, executor_, mover_;  // no mover without a host tier
};

}  // namespace troupe
