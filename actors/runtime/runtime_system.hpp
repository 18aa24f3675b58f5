// The CAF system of a runtime: a host's, after a check, or one of its own. Internal to the runtime.
#pragma once
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <cstdint>
#include <memory>

#include "actors/embedding/caf_system.hpp"

namespace troupe {

/// Throws std::invalid_argument, naming what the host has to do, when the system was made without
/// add_to() or has a scheduling policy that Troupe does not run under.
void check_system(const caf::actor_system&);

/// For `troupe serve` and programs without CAF.
class own_system {
 public:
  /// Throws thread_error when too few threads can be made. CAF itself cannot give up half-way: when
  /// one of its threads is refused all the same, the process ends with one line and exit code 2.
  own_system();
  caf::actor_system& get() { return *system_; }

  /// Workers, the clock, and the printer of caf::aout.
  static std::uint32_t threads_needed();

 private:
  struct settings;
  std::unique_ptr<caf::actor_system_config> config_;
  std::unique_ptr<caf::actor_system> system_;
};

}  // namespace troupe
