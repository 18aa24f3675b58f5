// The Walsh-Hadamard transform of a head, which is its own inverse and leaves every product of two
// heads what it was. A few dimensions of K, and some of V, are many times larger than the rest and
// would leave the others few codes; afterwards all are about as large. Included by units of an
// instruction set alone.
#pragma once
#include "gpu/cpu/kernels/attention.hpp"
#include "gpu/cpu/kernels/isa/simd.hpp"

namespace troupe::gpu::TROUPE_ISA_NS {

/// Sums in the lanes without the bit Distance, differences in those with it.
template <int Distance>
TROUPE_INLINE vf spread_lanes(vf x) {
  alignas(64) float sign[16];
  for (int i = 0; i < 16; ++i) sign[i] = i & Distance ? -1.0f : 1.0f;
  return fma(x, load(sign), swap_lanes<Distance>(x));
}

/// In place, in blocks of the largest power of two that divides head_dim, a multiple of 16.
TROUPE_INLINE void spread_head(float* x, std::uint32_t head_dim) {
  const std::uint32_t block = head_dim & (~head_dim + 1);
  float unit = 0.25f;  // 1 / sqrt(block)
  for (std::uint32_t n = block; n > 16; n /= 2) unit *= 0.70710678f;
  for (std::uint32_t d = 0; d < head_dim; d += 16) {
    vf v = mul(load(x + d), set1(unit));
    v = spread_lanes<1>(v);
    v = spread_lanes<2>(v);
    v = spread_lanes<4>(v);
    store(x + d, spread_lanes<8>(v));
  }
  for (std::uint32_t half = 16; half < block; half *= 2) {
    for (std::uint32_t begin = 0; begin < head_dim; begin += 2 * half) {
      for (std::uint32_t d = begin; d < begin + half; d += 16) {
        const vf a = load(x + d), b = load(x + d + half);
        store(x + d, add(a, b));
        store(x + d + half, sub(a, b));
      }
    }
  }
}

}  // namespace troupe::gpu::TROUPE_ISA_NS
