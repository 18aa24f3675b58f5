// What every engine actor does with our own mistakes: an exception ends the actor (and by its
// monitors the runtime), a violated invariant aborts in sanitizer builds and is reported and
// survived in release.
#pragma once
#include <string>

#include "actors/api/observer.hpp"

namespace caf {
class scheduled_actor;
}

namespace troupe {

void report_violation(core::observer& watcher, const std::string& invariant);

/// Installs the exception handler: report, then die with caf::sec::runtime_error.
void fail_stop(caf::scheduled_actor* self, core::observer& watcher, const char* role);

}  // namespace troupe
