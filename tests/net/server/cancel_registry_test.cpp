#include "net/server/cancel_registry.hpp"

#include <catch2/catch.hpp>

using namespace troupe;
using namespace troupe::net;

TEST_CASE(
    "cancel_registry: running, ended and unknown ids are distinguished, and memory is bounded",
    "[net]") {
  struct counted final : core::generation {
    core::request_id id() const override { return {1}; }
    core::life_phase phase() const override { return core::life_phase::queued; }
    void delivered() override {}
    void cancel(core::end_reason, core::time_us) override { ++count; }
    int count = 0;
  };
  auto generation = std::make_shared<counted>();
  cancel_registry registry{2};
  registry.opened("a", {generation});
  CHECK(registry.cancel("a", 0) == cancel_outcome::cancelled);
  CHECK(generation->count == 1);
  registry.closed("a");
  CHECK(registry.cancel("a", 0) == cancel_outcome::already_over);
  CHECK(registry.cancel("b", 0) == cancel_outcome::unknown);
  for (const char* id : {"x", "y"}) {
    registry.opened(id, {});
    registry.closed(id);
  }
  CHECK(registry.cancel("a", 0) == cancel_outcome::unknown);
  CHECK(registry.cancel("y", 0) == cancel_outcome::already_over);
}
