// What the sampler needs of one row of logits: the likeliest token (lowest id on ties), whether a
// NaN is among them, and sum exp((x - max) * inverse_temperature), summed per 1,024 values in 16
// lanes and then in double, in index order.
#pragma once
#include "gpu/cpu/kernels/tile.hpp"

namespace troupe::gpu {

struct logit_stats {
  std::uint32_t best = 0;
  float max = 0.0f;
  bool has_nan = false;
};

struct logit_stats_params {
  const float* logits = nullptr;
  std::uint32_t count = 0;  ///< any
};

struct exp_sum_params {
  const float* logits = nullptr;
  std::uint32_t count = 0;
  float max = 0.0f;  ///< finite
  float inverse_temperature = 1.0f;
  float* weights = nullptr;  ///< exp values out, [count], or null
};

}  // namespace troupe::gpu
