#include "actors/scheduler/served_sessions.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

namespace troupe {

void served_sessions::add(core::request_id request, const protocol::session_actor& session) {
  auto& of_session = by_address_[session.address()];
  if (of_session.empty()) scheduler_->monitor(session);
  of_session.push_back(request);
  choices_[request] = {session, {}, 0, false};
}

served_choice* served_sessions::find(core::request_id request) {
  const auto found = choices_.find(request);
  return found == choices_.end() ? nullptr : &found->second;
}

// Neither monitor nor address stays behind: either would keep the memory of a dead actor for as
// long as the scheduler lives.
void served_sessions::forget(core::request_id request) {
  const auto found = choices_.find(request);
  if (found == choices_.end()) return;
  const auto address = found->second.session.address();
  choices_.erase(found);
  const auto others = by_address_.find(address);
  if (others == by_address_.end()) return;
  std::erase(others->second, request);
  if (!others->second.empty()) return;
  scheduler_->demonitor(address);
  by_address_.erase(others);
}

std::vector<core::request_id> served_sessions::choices_of(const caf::actor_addr& session) const {
  const auto found = by_address_.find(session);
  return found == by_address_.end() ? std::vector<core::request_id>{} : found->second;
}

}  // namespace troupe
