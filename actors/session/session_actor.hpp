// One request's actor: reads the prompt (core/session/prompt_reading) once for all its choices,
// submits it, passes what the scheduler and the client say on to the choice it is about, and sends
// what that answers. Decides nothing itself; never talks to allocator or executor; quits when the
// scheduler has ended every choice.
#pragma once
#include <memory>
#include <mutex>
#include <vector>

#include "actors/core/session/prompt_reading.hpp"
#include "actors/protocol/scheduler.hpp"
#include "actors/session/session_choice.hpp"

namespace troupe {

/// The places of one runtime, taken and given back by sessions on several threads.
class shared_reading_places {
 public:
  explicit shared_reading_places(core::reading_places places = {}) : places_(places) {}
  template <class Use>
  auto with(Use&& use) {
    const std::lock_guard lock(mutex_);
    return use(places_);
  }

 private:
  std::mutex mutex_;
  core::reading_places places_;
};

/// What every session of a runtime shares.
struct session_context {
  choice_context choice;
  protocol::scheduler_actor scheduler;
  std::uint32_t model_context = 0;  ///< tokens; a prompt that is certainly longer is refused while
                                    ///< it is read; 0: no limit
  core::deadlines_ms deadlines;     ///< for requests that name none; the scheduler has the same
  std::shared_ptr<shared_reading_places> places = std::make_shared<shared_reading_places>();
};

protocol::session_actor::behavior_type session_actor(protocol::session_actor::pointer self,
                                                     const session_context& context,
                                                     const std::vector<choice_client>& clients);

}  // namespace troupe
