// Rotary position on interleaved pairs (0,1), (2,3), ... of q (in place) and k, and the store of k
// and v into their KV block, each as its side of the view says: f16 and bf16 rounded to nearest
// even, the others as codes with one scale per head (gpu/README.md has formulas and layouts). One
// row of q, k, v is one token; rows are independent, and so is each head's scale. head_dim is a
// multiple of 16. A head with a NaN or an infinity in it is stored with the scale NaN.
#pragma once
#include "gpu/cpu/kernels/kv_view.hpp"
#include "gpu/cpu/kernels/tile.hpp"

namespace troupe::gpu {

struct rope_params {
  float* q = nullptr;
  std::size_t q_stride = 0;
  const float* k = nullptr;
  const float* v = nullptr;
  std::size_t kv_stride = 0;
  std::uint32_t heads = 0;
  std::uint32_t kv_heads = 0;
  std::uint32_t head_dim = 0;
  const float* cosines = nullptr;            ///< [position][head_dim]: c0 c0 c1 c1 ...
  const float* sines = nullptr;              ///< [position][head_dim]: -s0 s0 -s1 s1 ...
  const std::uint32_t* positions = nullptr;  ///< [row]
  const std::uint32_t* blocks = nullptr;     ///< [row]: KV block of that position
  kv_view kv;
  std::uint32_t row_begin = 0;
  std::uint32_t row_end = 0;
};

}  // namespace troupe::gpu
