#include "actors/fail_stop.hpp"

#include <caf/scheduled_actor.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>

namespace troupe {

void report_violation(core::observer& watcher, const std::string& invariant) {
#ifdef TROUPE_ABORT_ON_VIOLATION
  std::fprintf(stderr, "violated invariant: %s\n", invariant.c_str());
  std::abort();
#endif
  watcher.on_violation(invariant);
}

void fail_stop(caf::scheduled_actor* self, core::observer& watcher, const char* role) {
  // Called on the actor's thread in the middle of its handler; the returned error is the reason
  // that its monitors (supervisor, scheduler, sessions) see.
  self->set_exception_handler([&watcher, role](std::exception_ptr& thrown) -> caf::error {
    std::string what = "unknown exception";
    try {
      std::rethrow_exception(thrown);
    } catch (const std::exception& e) {
      what = e.what();
    } catch (...) {
    }
    watcher.on_violation(std::string(role) + " died of an exception: " + what);
    return caf::make_error(caf::sec::runtime_error, what);
  });
}

}  // namespace troupe
