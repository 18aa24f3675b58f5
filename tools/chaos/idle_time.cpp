#include "tools/chaos/idle_time.hpp"

#include <algorithm>

namespace troupe::chaos {

void end_of_wave::kill(time_point at) {
  last_kill_ = std::max(last_kill_.value_or(at), at);
}

void end_of_wave::answer(time_point at) {
  last_answer_ = std::max(last_answer_.value_or(at), at);
}

std::optional<double> end_of_wave::ms_until(time_point idle) const {
  if (!last_kill_) return std::nullopt;
  const auto from = std::max(*last_kill_, last_answer_.value_or(*last_kill_));
  return std::chrono::duration<double, std::milli>(idle - from).count();
}

double idle_limit_ms(std::optional<double> given_ms, double max_step_ms,
                     std::optional<double> longest_step_ms) {
  if (given_ms) return *given_ms;
  return std::max(max_step_ms, longest_step_ms.value_or(0)) + beyond_step_ms;
}

}  // namespace troupe::chaos
