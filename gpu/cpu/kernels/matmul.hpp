// out[r][o] = sum_c W[o][c] * in[r][c] (+ add[r][o]), for a range of rows and of weight panels.
// Every output element is summed in column order, 32 columns at a time, by the same operations
// whatever the row tile: acc = fma(float(integer dot), d_w * d_a, acc), then for a kind with a
// minimum acc = fma(m_w, sum_a, acc); q6_k does the first for columns 0..15, then for 16..31. Reads
// panel_bytes per panel and row tile (from cache), 36 bytes per row and block; writes 64 bytes per
// row and panel. `out` is [row][out_stride], out_stride >= panels * 16; `add` may be `out`. `in`
// must hold what the kind needs.
#pragma once
#include "gpu/cpu/kernels/tile.hpp"

namespace troupe::gpu {

struct matmul_params {
  const packed_matrix* weights = nullptr;
  std::uint32_t panel_begin = 0;
  std::uint32_t panel_end = 0;
  std::uint32_t row_begin = 0;  ///< a multiple of 8
  std::uint32_t row_end = 0;
  activation in;
  float* out = nullptr;
  std::size_t out_stride = 0;
  const float* add = nullptr;  ///< residual, same shape and stride as `out`, or null
};

}  // namespace troupe::gpu
