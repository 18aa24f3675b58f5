// Rotary position on interleaved pairs (0,1), (2,3), ... of q (in place) and k, and the store of k
// and v into their KV block as f16 (round to nearest even). One row of q, k, v is one token; rows
// are independent. Layout of one layer and KV head inside a block: K [dim][token], V [token][dim]
// (gpu/README.md has the picture). head_dim is a multiple of 16. Writes 2 * kv_heads * head_dim * 2
// bytes of KV per row.
#pragma once
#include "gpu/cpu/kernels/tile.hpp"

namespace troupe::gpu {

/// Where one layer's K and V lie: block b, head h: base + b * block_stride + h * head_stride (+
/// value_offset for V).
struct kv_view {
  std::uint16_t* base = nullptr;  ///< of this layer, in f16 units
  std::size_t block_stride = 0;
  std::size_t head_stride = 0;
  std::size_t value_offset = 0;
  std::uint32_t block_size = 0;  ///< tokens
};

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
