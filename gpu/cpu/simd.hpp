// Sixteen floats at a time, for kernels compiled once per instruction set. Every name lives in the
// set's own namespace (TROUPE_ISA_NS) and is inlined, so code of one set can never be linked in
// place of another's. Included by units of an instruction set alone; never by shared code. Shared
// code of the standard library is kept out.
#pragma once
#if defined(TROUPE_ISA_AVX512)
#define TROUPE_ISA_NS isa_avx512
#include "gpu/cpu/simd_avx512.hpp"
#elif defined(TROUPE_ISA_AVX2)
#define TROUPE_ISA_NS isa_avx2
#include "gpu/cpu/simd_avx2.hpp"
#else
#define TROUPE_ISA_NS isa_portable
#include "gpu/cpu/simd_portable.hpp"
#endif

namespace troupe::gpu::TROUPE_ISA_NS {

/// Fixed trees: 8+8, 4+4, 2+2, 1+1.
TROUPE_INLINE float reduce_add(vf x) {
  float lane[16];
  store(lane, x);
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lane[i] = lane[i] + lane[i + width];
  }
  return lane[0];
}
TROUPE_INLINE float reduce_max(vf x) {
  float lane[16];
  store(lane, x);
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lane[i] = lane[i] > lane[i + width] ? lane[i] : lane[i + width];
  }
  return lane[0];
}

/// e^x to about 2 units in the last place; 0 below -87.3, NaN stays NaN, finite above 88.
TROUPE_INLINE vf exp(vf x) {
  const vf low = set1(-87.3f);
  const vf clamped = min(set1(88.0f), max(low, x));  // the second operand is kept when it is NaN
  const vf n = round(mul(clamped, set1(1.44269504f)));
  vf r = fma(n, set1(-0.693359375f), clamped);
  r = fma(n, set1(2.12194440e-4f), r);
  vf y = set1(1.9875691500e-4f);
  y = fma(y, r, set1(1.3981999507e-3f));
  y = fma(y, r, set1(8.3334519073e-3f));
  y = fma(y, r, set1(4.1665795894e-2f));
  y = fma(y, r, set1(1.6666665459e-1f));
  y = fma(y, r, set1(5.0000001201e-1f));
  y = add(fma(y, mul(r, r), r), set1(1.0f));
  return select(less(x, low), zero(), mul(y, power_of_two(n)));
}

TROUPE_INLINE float exp_one(float x) {
  float lane[16];
  store(lane, exp(set1(x)));
  return lane[0];
}

}  // namespace troupe::gpu::TROUPE_ISA_NS
