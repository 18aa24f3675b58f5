// Sixteen floats at a time, for kernels compiled once per instruction set. Every name lives in the
// set's own namespace (TROUPE_ISA_NS) and is inlined, so code of one set can never be linked in
// place of another's. Included by units of an instruction set alone; never by shared code. Shared
// code of the standard library is kept out.
#pragma once
#if defined(TROUPE_ISA_AVX512)
#define TROUPE_ISA_NS isa_avx512
#include "gpu/cpu/kernels/isa/simd_avx512.hpp"
#elif defined(TROUPE_ISA_AVX2)
#define TROUPE_ISA_NS isa_avx2
#include "gpu/cpu/kernels/isa/simd_avx2.hpp"
#else
#define TROUPE_ISA_NS isa_portable
#include "gpu/cpu/kernels/isa/simd_portable.hpp"
#endif

namespace troupe::gpu::TROUPE_ISA_NS {

/// e^(x - n ln 2) for n the integer next to x / ln 2.
TROUPE_INLINE vf exp_of_rest(vf x, vf n) {
  vf r = fma(n, set1(-0.693359375f), x);
  r = fma(n, set1(2.12194440e-4f), r);
  vf y = set1(1.9875691500e-4f);
  y = fma(y, r, set1(1.3981999507e-3f));
  y = fma(y, r, set1(8.3334519073e-3f));
  y = fma(y, r, set1(4.1665795894e-2f));
  y = fma(y, r, set1(1.6666665459e-1f));
  y = fma(y, r, set1(5.0000001201e-1f));
  return add(fma(y, mul(r, r), r), set1(1.0f));
}

/// e^x to about 2 units in the last place; 0 below -87.3, NaN stays NaN, finite above 88.
TROUPE_INLINE vf exp(vf x) {
  const vf low = set1(-87.3f);
  const vf clamped = min(set1(88.0f), max(low, x));  // the second operand is kept when it is NaN
  const vf n = round(mul(clamped, set1(1.44269504f)));
  return select(less(x, low), zero(), mul(exp_of_rest(clamped, n), power_of_two(n)));
}

/// 2^x to about 1.5 units in the last place for x <= 127; 2^-126 below -126, 1 at 0, NaN stays NaN.
/// Cheaper than exp: the sum with a large number rounds x and leaves n + 127 in its lowest bits.
TROUPE_INLINE vf exp2(vf x) {
  const vf shift = set1(12582912.0f + 127.0f);
  const vf clamped = max(set1(-126.0f), x);  // the second operand is kept when it is NaN
  const vf n = add(clamped, shift);
  const vf r = sub(clamped, sub(n, shift));
  vf y = set1(1.5353362009e-4f);
  y = fma(y, r, set1(1.3398874453e-3f));
  y = fma(y, r, set1(9.6184373576e-3f));
  y = fma(y, r, set1(5.5503324710e-2f));
  y = fma(y, r, set1(2.4022647914e-1f));
  y = fma(y, r, set1(6.9314720286e-1f));
  y = fma(y, r, set1(1.0f));
  return mul(y, power_of_low_bits(n));
}

/// exp for x <= 0, cheaper and to the same bits, but 1.2e-38 below -87.3.
TROUPE_INLINE vf exp_below(vf x) {
  const vf shift = set1(12582912.0f + 127.0f);
  const vf clamped = max(set1(-87.3f), x);  // the second operand is kept when it is NaN
  const vf biased = add(mul(clamped, set1(1.44269504f)), shift);
  const vf n = sub(biased, shift);
  return mul(exp_of_rest(clamped, n), power_of_low_bits(biased));
}

}  // namespace troupe::gpu::TROUPE_ISA_NS
