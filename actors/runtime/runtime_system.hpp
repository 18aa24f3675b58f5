// The CAF system a runtime lives in: a host's, checked, or one of its own. Internal to the runtime.
#pragma once
#include <algorithm>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <thread>

#include "actors/embedding/caf_system.hpp"

namespace troupe {

/// Throws std::invalid_argument, naming what the host has to do, when the system was made without
/// add_to() or cannot run us.
void check_system(const caf::actor_system&);

/// What `troupe serve` and programs without CAF use.
struct own_system {
  struct settings : caf::actor_system_config {
    settings() {
      add_to(*this);
      set("scheduler.max-threads",
          std::size_t{std::clamp(std::thread::hardware_concurrency(), 2u, 4u)});
    }
  };
  settings config;
  caf::actor_system system{config};
};

}  // namespace troupe
