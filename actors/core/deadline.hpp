// The three deadlines of a request as moments: when each is over, and which one is over first. Used
// while a prompt is tokenized and while the scheduler has the request, so that both count alike.
// Values only; time comes in.
#pragma once
#include <limits>
#include <optional>

#include "actors/api/generation.hpp"
#include "actors/core/state_hash.hpp"

namespace troupe::core {

inline constexpr time_us never = std::numeric_limits<time_us>::max();

/// How far a request has come, as far as its deadlines care: the queue deadline ends with the first
/// grant of blocks, the first-token deadline with the first token.
struct deadline_progress {
  bool granted = false;
  bool first_token = false;
};

struct deadline_times {
  time_us queue = never, first_token = never, total = never;
  bool operator==(const deadline_times&) const = default;

  /// The deadline that is over. Queue before first token before total: the narrowest reason.
  std::optional<end_reason> overdue(deadline_progress at, time_us now) const;
  /// The next moment at which overdue() may answer something.
  time_us next(deadline_progress at) const;
  void add_to(state_hash&) const;
};

/// Counted from `since`. A deadline of the request's own replaces the configured one; 0 is none,
/// and so is one that no clock reaches.
deadline_times deadlines_from(time_us since, const deadlines_ms& own,
                              const deadlines_ms& configured);

}  // namespace troupe::core
