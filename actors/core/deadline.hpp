// Deadlines as moments of the clock: one way to count from the milliseconds a client or the
// configuration gives, for sessions that read a prompt and for the scheduler. Pure.
#pragma once
#include <cstdint>
#include <limits>

#include "actors/api/generation.hpp"

namespace troupe::core {

inline constexpr time_us never = std::numeric_limits<time_us>::max();

/// `ms` after `from`. 0, or later than the clock can say: never.
constexpr time_us due(std::uint64_t ms, time_us from) {
  if (ms == 0 || ms > static_cast<std::uint64_t>(never - from) / 1000) return never;
  return from + static_cast<time_us>(ms) * 1000;
}

/// The request's own deadlines, and the configured ones where it names none.
constexpr deadlines_ms with_defaults(const deadlines_ms& own, const deadlines_ms& configured) {
  return {own.queue > 0 ? own.queue : configured.queue,
          own.first_token > 0 ? own.first_token : configured.first_token,
          own.total > 0 ? own.total : configured.total};
}

}  // namespace troupe::core
