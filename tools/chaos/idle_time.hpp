// How soon after a wave's work was over the server must be idle. Plain numbers: no client, no
// server.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

namespace troupe::chaos {

/// What the server gets beyond the step under way.
inline constexpr double beyond_step_ms = 50;

/// What the last clients of a wave did.
class end_of_wave {
 public:
  using time_point = std::chrono::steady_clock::time_point;

  void kill(time_point at);
  /// A client that outlived its moment is through: until then the server had work to do.
  void answer(time_point at);
  /// Milliseconds until `idle` from the last kill, or from the last answer where that came later;
  /// none without a kill.
  std::optional<double> ms_until(time_point idle) const;

  std::uint32_t killed_at_the_end = 0;  ///< clients whose request may have been under way then

 private:
  std::optional<time_point> last_kill_, last_answer_;
};

/// `given_ms` is --idle-limit-ms and counts alone. Else one step, which is the longest of the wave
/// where that took more than --max-step-ms, since the step under way at the last kill was one of
/// the wave's.
double idle_limit_ms(std::optional<double> given_ms, double max_step_ms,
                     std::optional<double> longest_step_ms);

}  // namespace troupe::chaos
