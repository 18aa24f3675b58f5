// The sessions that wait for the scheduler, found by request and by address. A session is monitored
// from the first of its choices to the end of the last one. Owned by the scheduler's shell; decides
// nothing.
#pragma once
#include <caf/actor_addr.hpp>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "actors/protocol/scheduler.hpp"

namespace troupe {

/// What the shell keeps of one choice: where its messages go, and times for the metrics.
struct served_choice {
  protocol::session_actor session;
  std::optional<core::time_us> cancel_seen_at;
  core::time_us last_token_at = 0;
  bool started = false;
};

class served_sessions {
 public:
  explicit served_sessions(protocol::scheduler_actor::pointer scheduler) : scheduler_(scheduler) {}

  void add(core::request_id, const protocol::session_actor&);
  /// Null when it has ended or never was.
  served_choice* find(core::request_id);
  void forget(core::request_id);
  std::vector<core::request_id> choices_of(const caf::actor_addr& session) const;

 private:
  protocol::scheduler_actor::pointer scheduler_;
  std::unordered_map<core::request_id, served_choice> choices_;
  std::map<caf::actor_addr, std::vector<core::request_id>> by_address_;
};

}  // namespace troupe
