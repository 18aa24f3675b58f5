#include "actors/core/blocks/lease_history.hpp"

#include <algorithm>
#include <string_view>

namespace troupe::core {

template <class Self>
auto* lease_history::find_in(Self& self, request_id request) {
  if (const auto found = self.live_.find(request); found != self.live_.end()) return &found->second;
  const auto found = std::find_if(self.ended_.begin(), self.ended_.end(),
                                  [&](const auto& e) { return e.first == request; });
  return found == self.ended_.end() ? nullptr : &found->second;
}

// Equal events in a row are one entry: a long answer is one "step_plan x900", and the events before
// it, which explain a leak, stay in the ring.
void lease_history::add(ring& of, std::uint32_t epoch, const char* what, time_us at) {
  of.epoch = std::max(of.epoch, epoch);
  if (of.count > 0) {
    auto& last = of.events[(of.next + events_kept - 1) % events_kept];
    if (last.epoch == epoch && std::string_view(last.what) == what) {
      ++last.times;
      last.at = at;
      return;
    }
  }
  of.events[of.next] = {what, epoch, 1, at};
  of.next = (of.next + 1) % events_kept;
  of.count = std::min(of.count + 1, events_kept);
}

void lease_history::begin(request_id request, time_us at) {
  add(live_[request], 0, "admitted", at);
}

void lease_history::note(lease_id lease, const char* what, time_us at) {
  if (auto* found = find_in(*this, lease.request)) add(*found, lease.epoch, what, at);
}

void lease_history::note(request_id request, const char* what, time_us at) {
  if (auto* found = find_in(*this, request)) add(*found, found->epoch, what, at);
}

void lease_history::end(request_id request, time_us at) {
  const auto found = live_.find(request);
  if (found == live_.end()) return;
  add(found->second, found->second.epoch, "ended", at);
  // Kept for a while after the end: a leak is found by an audit, up to a second later.
  ended_.emplace_back(request, found->second);
  live_.erase(found);
  if (ended_.size() > ended_kept) ended_.pop_front();
}

std::vector<kv_event> lease_history::of(request_id request) const {
  std::vector<kv_event> out;
  if (const auto* found = find_in(*this, request))
    for (std::size_t i = 0; i < found->count; ++i)
      out.push_back(found->events[(found->next + events_kept - found->count + i) % events_kept]);
  return out;
}

std::string lease_history::words(request_id request) const {
  const auto events = of(request);
  if (events.empty()) return "no events kept";
  std::string out;
  for (const auto& e : events) {
    if (!out.empty()) out += ", ";
    out += e.what;
    if (e.epoch > 0) out += " " + name_of(lease_id{request, e.epoch});
    if (e.times > 1) out += " x" + std::to_string(e.times);
    out += " +" + std::to_string(e.at - events.front().at) + " us";
  }
  return out;
}

}  // namespace troupe::core
