#include "actors/core/deadline.hpp"

#include <algorithm>

namespace troupe::core {

deadline_times deadlines_from(time_us since, const deadlines_ms& own,
                              const deadlines_ms& configured) {
  const auto moment = [since](std::uint64_t own_ms, std::uint64_t configured_ms) {
    const auto ms = own_ms > 0 ? own_ms : configured_ms;
    if (ms == 0 || ms > static_cast<std::uint64_t>(never - since) / 1000) return never;
    return since + static_cast<time_us>(ms) * 1000;
  };
  return {moment(own.queue, configured.queue), moment(own.first_token, configured.first_token),
          moment(own.total, configured.total)};
}

std::optional<end_reason> deadline_times::overdue(deadline_progress at, time_us now) const {
  if (!at.granted && now >= queue) return end_reason::queue_timeout;
  if (!at.first_token && now >= first_token) return end_reason::first_token_timeout;
  if (now >= total) return end_reason::total_timeout;
  return std::nullopt;
}

time_us deadline_times::next(deadline_progress at) const {
  auto soonest = total;
  if (!at.granted) soonest = std::min(soonest, queue);
  if (!at.first_token) soonest = std::min(soonest, first_token);
  return soonest;
}

void deadline_times::add_to(state_hash& h) const {
  h.add_due(queue).add_due(first_token).add_due(total);
}

}  // namespace troupe::core
