// out[r][o] = silu(gate[o] . in[r]) * (up[o] . in[r]) with silu(g) = g / (1 + exp(-g)), for a range
// of rows and of blocks of 32 outputs (two panels of each matrix). The products are those of
// matmul.hpp, bit for bit; the result goes straight into the input tiles of the next matmul
// (quantize.hpp) and/or into `out.values`. `gate` and `up` have the same shape. In and out never
// overlap.
#pragma once
#include "gpu/cpu/kernels/tile.hpp"

namespace troupe::gpu {

struct gate_up_params {
  const packed_matrix* gate = nullptr;
  const packed_matrix* up = nullptr;
  std::uint32_t block_begin = 0;  ///< blocks of 32 outputs
  std::uint32_t block_end = 0;
  std::uint32_t row_begin = 0;  ///< a multiple of 8
  std::uint32_t row_end = 0;
  activation in;
  activation out;
};

}  // namespace troupe::gpu
