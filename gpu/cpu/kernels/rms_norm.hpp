// y[r] = x[r] / sqrt(mean(x[r]^2) + eps) * weight, quantized on the way out as quantize.hpp says.
// The squares are summed in 16 lanes (column mod 16) and folded in one fixed tree. `in` row of
// output row r is source_rows[r], or r when source_rows is null. Padding columns of `in` and
// `weight` are zero.
#pragma once
#include "gpu/cpu/kernels/tile.hpp"

namespace troupe::gpu {

struct rms_norm_params {
  const float* in = nullptr;
  std::size_t in_stride = 0;
  const std::uint32_t* source_rows = nullptr;
  const float* weight = nullptr;
  std::uint32_t width = 0;  ///< real columns
  float eps = 0.0f;
  std::uint32_t row_begin = 0;
  std::uint32_t row_end = 0;
  activation out;
};

}  // namespace troupe::gpu
