// What every engine actor does when the program itself is wrong. An exception ends the actor, and
// through its monitors the runtime: state that an exception interrupted cannot be trusted. A
// violated invariant aborts in sanitizer builds, where a test sees it; in release it is reported
// and the engine goes on, because the ledgers quarantine the affected blocks.
#pragma once
#include <string>

#include "actors/api/observer.hpp"

namespace caf {
class scheduled_actor;
}

namespace troupe {

void report_violation(core::observer& watcher, const std::string& invariant);

/// Installs the exception handler: report, then end the actor with caf::sec::runtime_error. Without
/// one CAF prints to stdout and ends the actor silently.
void fail_stop(caf::scheduled_actor* self, core::observer& watcher, const char* role);

}  // namespace troupe
