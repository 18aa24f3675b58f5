// What the debugging endpoints may send to a runtime: an audit request to its scheduler, a delay to
// its executor. Owned by the runtime; holds no state; never waits for an answer.
#pragma once
#include "actors/api/kv_audit.hpp"
#include "actors/protocol/scheduler.hpp"

namespace troupe {

class runtime_probe final : public core::engine_probe {
 public:
  runtime_probe(protocol::scheduler_actor scheduler, const protocol::executor_actor& executor);
  void audit(std::function<void(core::kv_part)> answer) override;
  void freeze(std::uint32_t ms) override;

 private:
  protocol::scheduler_actor scheduler_;
  caf::weak_actor_ptr executor_;  // weak: a handle of a detached actor would keep its thread alive
};

}  // namespace troupe
