// The actors' time: microseconds of the steady clock, or of the virtual clock that CAF's test
// scheduler gives a shell. The pure machines see only the number.
#pragma once
#include <chrono>

#include "actors/api/ids.hpp"

namespace troupe {

inline core::time_us to_time_us(std::chrono::steady_clock::time_point at) {
  return std::chrono::duration_cast<std::chrono::microseconds>(at.time_since_epoch()).count();
}

}  // namespace troupe
