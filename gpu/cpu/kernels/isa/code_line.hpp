// Exact integer sums of codes times wide numbers. A line of codes is 64 unsigned bytes, 16 outputs
// x 4 inputs; a wide number is an integer in -wide_max .. wide_max, of which four, those of a
// line's inputs, take 8 bytes in a form of the instruction set's own. Sums are 32 bits and exact
// while the inputs are at most 256, so their order is free. Included by units of an instruction set
// alone.
#pragma once
#include "gpu/cpu/kernels/isa/simd.hpp"

namespace troupe::gpu::TROUPE_ISA_NS {

inline constexpr float wide_max = 16256.0f;     // 127 * 128: two signed bytes of 7 and 8 bits
inline constexpr std::uint32_t wide_bytes = 8;  // of four

#if defined(TROUPE_ISA_AVX512)

/// Sums of 16 outputs that a loop can keep in registers beside its operands, and the most queries
/// they are for: fewer share more loads, and more of them the compiler spills.
inline constexpr int line_accumulators = 8, line_queries = 4;

/// Registers of 16 sums, of a line and of four wide numbers.
inline constexpr int sum_parts = 2, line_parts = 1, wide_parts = 2;  // the upper, the lower byte
using sum_part = __m512i;
using line_part = __m512i;
using wide_part = __m512i;

TROUPE_INLINE void clear_sums(sum_part* s) {
  s[0] = s[1] = _mm512_setzero_si512();
}
TROUPE_INLINE void load_line(const std::uint8_t* p, line_part* codes) {
  codes[0] = _mm512_loadu_si512(p);
}
/// Two lines of 4-bit codes.
TROUPE_INLINE void load_lines(const std::uint8_t* p, line_part* low, line_part* high) {
  const __m512i x = _mm512_loadu_si512(p), mask = _mm512_set1_epi8(15);
  low[0] = _mm512_and_si512(x, mask);
  high[0] = _mm512_and_si512(_mm512_srli_epi16(x, 4), mask);
}
TROUPE_INLINE void load_wide(const std::byte* p, wide_part* x) {
  std::int32_t high, low;
  __builtin_memcpy(&high, p, 4);
  __builtin_memcpy(&low, p + 4, 4);
  x[0] = _mm512_set1_epi32(high);
  x[1] = _mm512_set1_epi32(low);
}
TROUPE_INLINE void add_products(sum_part* s, const line_part* codes, const wide_part* x) {
  s[0] = _mm512_dpbusd_epi32(s[0], codes[0], x[0]);
  s[1] = _mm512_dpbusd_epi32(s[1], codes[0], x[1]);
}
/// The sums and `offset`.
TROUPE_INLINE vf total(const sum_part* s, std::int32_t offset) {
  const __m512i sum = _mm512_add_epi32(_mm512_slli_epi32(s[0], 7), s[1]);
  return _mm512_cvtepi32_ps(_mm512_add_epi32(sum, _mm512_set1_epi32(offset)));
}
/// 16 wide numbers.
TROUPE_INLINE void store_wide(std::byte* p, vf x) {
  const __m512i whole = _mm512_cvtps_epi32(x);
  // Rounded to the nearest 128, so that the rest is in -64 .. 63.
  const __m512i high = _mm512_srai_epi32(_mm512_add_epi32(whole, _mm512_set1_epi32(64)), 7);
  const __m512i low = _mm512_sub_epi32(whole, _mm512_slli_epi32(high, 7));
  const __m128i h = _mm512_cvtepi32_epi8(high), l = _mm512_cvtepi32_epi8(low);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm_unpacklo_epi32(h, l));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 16), _mm_unpackhi_epi32(h, l));
}

#elif defined(TROUPE_ISA_AVX2)

inline constexpr int line_accumulators = 2, line_queries = 2;

inline constexpr int sum_parts = 4, line_parts = 4, wide_parts = 1;
using sum_part = __m256i;   // 4 outputs x 2 halves of the inputs
using line_part = __m256i;  // 4 outputs x 4 inputs, 16 bits each
using wide_part = __m256i;

TROUPE_INLINE void clear_sums(sum_part* s) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) s[i] = _mm256_setzero_si256();
}
TROUPE_INLINE __m256i load_sixteen(const std::uint8_t* p) {
  return _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}
TROUPE_INLINE void load_line(const std::uint8_t* p, line_part* codes) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) codes[i] = load_sixteen(p + 16 * i);
}
TROUPE_INLINE void load_lines(const std::uint8_t* p, line_part* low, line_part* high) {
  const __m256i mask = _mm256_set1_epi16(15);
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const __m256i x = load_sixteen(p + 16 * i);
    low[i] = _mm256_and_si256(x, mask);
    high[i] = _mm256_srli_epi16(x, 4);
  }
}
TROUPE_INLINE void load_wide(const std::byte* p, wide_part* x) {
  long long four;
  __builtin_memcpy(&four, p, 8);
  x[0] = _mm256_set1_epi64x(four);
}
TROUPE_INLINE void add_products(sum_part* s, const line_part* codes, const wide_part* x) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) s[i] = _mm256_add_epi32(s[i], _mm256_madd_epi16(codes[i], x[0]));
}
TROUPE_INLINE __m256 half_total(__m256i a, __m256i b, std::int32_t offset) {
  const __m256i sum = _mm256_permute4x64_epi64(_mm256_hadd_epi32(a, b), 0xD8);
  return _mm256_cvtepi32_ps(_mm256_add_epi32(sum, _mm256_set1_epi32(offset)));
}
TROUPE_INLINE vf total(const sum_part* s, std::int32_t offset) {
  return {half_total(s[0], s[1], offset), half_total(s[2], s[3], offset)};
}
TROUPE_INLINE void store_wide(std::byte* p, vf x) {
  const __m256i words = _mm256_packs_epi32(_mm256_cvtps_epi32(x.a), _mm256_cvtps_epi32(x.b));
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), _mm256_permute4x64_epi64(words, 0xD8));
}

#else

inline constexpr int line_accumulators = 1, line_queries = 1;

inline constexpr int sum_parts = 1, line_parts = 1, wide_parts = 1;
struct sum_part {
  std::int32_t sum[16];
};
struct line_part {
  std::uint8_t code[64];
};
struct wide_part {
  std::int16_t x[4];
};

TROUPE_INLINE void clear_sums(sum_part* s) {
  *s = {};
}
TROUPE_INLINE void load_line(const std::uint8_t* p, line_part* codes) {
  __builtin_memcpy(codes, p, 64);
}
TROUPE_INLINE void load_lines(const std::uint8_t* p, line_part* low, line_part* high) {
  for (int i = 0; i < 64; ++i) {
    low->code[i] = p[i] & 15;
    high->code[i] = p[i] >> 4;
  }
}
TROUPE_INLINE void load_wide(const std::byte* p, wide_part* x) {
  __builtin_memcpy(x, p, 8);
}
TROUPE_INLINE void add_products(sum_part* s, const line_part* codes, const wide_part* x) {
  for (int o = 0; o < 16; ++o) {
    const std::uint8_t* c = codes->code + 4 * o;
    s->sum[o] += c[0] * x->x[0] + c[1] * x->x[1] + c[2] * x->x[2] + c[3] * x->x[3];
  }
}
TROUPE_INLINE vf total(const sum_part* s, std::int32_t offset) {
  return each_lane([&](int i) { return static_cast<float>(s->sum[i] + offset); });
}
TROUPE_INLINE void store_wide(std::byte* p, const vf& x) {
  std::int16_t out[16];
  for (int i = 0; i < 16; ++i) out[i] = static_cast<std::int16_t>(x.q[i / 4][i % 4]);
  __builtin_memcpy(p, out, 32);
}

#endif

}  // namespace troupe::gpu::TROUPE_ISA_NS
