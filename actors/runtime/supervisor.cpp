#include "actors/runtime/supervisor.hpp"

#include <algorithm>
#include <caf/actor_cast.hpp>

#include "actors/protocol/type_ids.hpp"

namespace troupe {

caf::behavior supervisor(caf::event_based_actor* self,
                         const std::vector<caf::strong_actor_ptr>& watched,
                         const std::shared_ptr<scheduler_gauges>& gauges, core::observer* watcher,
                         const std::function<void(const std::string&)>& on_fatal) {
  constexpr const char* roles[] = {"scheduler", "allocator", "executor", "mover"};
  std::vector<caf::actor_addr> addresses;
  for (const auto& actor : watched) {
    addresses.push_back(caf::actor_cast<caf::actor_addr>(actor));
    self->monitor(addresses.back());
  }
  self->set_down_handler([=](const caf::down_msg& down) {
    // Before the runtime ends its own actors it sets `failed`, so that their exits are no fault.
    if (gauges->failed || down.reason == caf::exit_reason::user_shutdown) return;
    gauges->set_over(gauges->failed);
    const auto found =
        std::find(addresses.begin(), addresses.end(), down.source) - addresses.begin();
    try {
      on_fatal(std::string("the ") + roles[std::min<std::ptrdiff_t>(found, 3)] +
               " died: " + caf::to_string(down.reason));
    } catch (...) {
      watcher->on_violation("on_fatal has thrown");
    }
  });
  return {[](const protocol::begin&) {}};
}

}  // namespace troupe
