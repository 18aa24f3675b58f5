#include "gpu/cpu/step_profile.hpp"

namespace troupe::gpu {

void step_profile::end_step(std::uint64_t rows) {
  lap(kernel_kind::other, {});
  ended_ = mark_;
  ran_ = true;
  const std::lock_guard lock(mutex_);
  ++total_.steps;
  total_.rows += rows;
  total_.idle_nanoseconds += step_.idle_nanoseconds;
  for (std::size_t i = 0; i < kernel_kinds; ++i) {
    total_.kernels[i] += step_.kernels[i];
    total_.step_nanoseconds += step_.kernels[i].nanoseconds;
  }
}

device_profile step_profile::read() const {
  const std::lock_guard lock(mutex_);
  return total_;
}

}  // namespace troupe::gpu
