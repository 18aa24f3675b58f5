#include "actors/scheduler/lease_watch.hpp"

namespace troupe {

void lease_watch::note(const core::admitted& x, core::time_us at) {
  history_.begin(x.request, at);
}
void lease_watch::note(const core::cancel& x, core::time_us at) {
  history_.note(x.request, "cancel", at);
}
void lease_watch::note(const core::reader_stalled& x, core::time_us at) {
  history_.note(x.request, "reader_stalled", at);
}
void lease_watch::note(const core::reader_resumed& x, core::time_us at) {
  history_.note(x.request, "reader_resumed", at);
}
void lease_watch::note(const core::granted& x, core::time_us at) {
  history_.note(x.lease, "granted", at);
}
void lease_watch::note(const core::denied& x, core::time_us at) {
  history_.note(x.lease, "denied", at);
}
void lease_watch::note(const core::released& x, core::time_us at) {
  history_.note(x.lease, "released", at);
}
void lease_watch::note(const core::reserve& x, core::time_us at) {
  history_.note(x.lease, "reserve", at);
}
void lease_watch::note(const core::fork_lease& x, core::time_us at) {
  history_.note(x.child, "fork_lease", at);
}
void lease_watch::note(const core::trim& x, core::time_us at) {
  history_.note(x.lease, "trim", at);
}
void lease_watch::note(const core::drop_source& x, core::time_us at) {
  history_.note(x.lease, "drop_source", at);
}
void lease_watch::note(const core::release& x, core::time_us at) {
  history_.note(x.lease, "release", at);
}
void lease_watch::note(const core::move_out& x, core::time_us at) {
  history_.note(x.lease, "move_out", at);
}
void lease_watch::note(const core::move_in& x, core::time_us at) {
  history_.note(x.parked, "move_in", at);
}
void lease_watch::note(const core::drop_parked& x, core::time_us at) {
  history_.note(x.parked, "drop_parked", at);
}
void lease_watch::note(const core::preempted& x, core::time_us at) {
  history_.note(x.request, "preempted", at);
}
void lease_watch::note(const core::step_plan& x, core::time_us at) {
  for (const auto& item : x.items) history_.note(item.request, "step_plan", at);
}
void lease_watch::note(const core::ended& x, core::time_us at) {
  history_.end(x.request, at);
}

void lease_watch::confirm_release(const core::released& event, core::time_us now) {
  const auto found = awaited_.find(event.lease);
  if (found == awaited_.end() || event.goes_on) return;
  watcher_.on_release_latency(static_cast<double>(now - found->second) * 1e-6);
  awaited_.erase(found);
}

std::string lease_watch::on_leaked(const protocol::leaked& found) {
  auto what = std::to_string(found.blocks) + " blocks leaked, quarantined; no live request owns";
  for (const auto lease : found.leases) {
    what += " lease " + core::name_of(lease) + " (" + history_.words(lease.request) + ")";
    awaited_.erase(lease);
  }
  return what;
}

}  // namespace troupe
