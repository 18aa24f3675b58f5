// simd.hpp for AVX-512 (F, BW, DQ, VL, VNNI): 16 floats are one register.
#pragma once
#include <immintrin.h>

#include <cstdint>

#define TROUPE_INLINE static inline __attribute__((always_inline))

namespace troupe::gpu::TROUPE_ISA_NS {

using vf = __m512;
using vm = __mmask16;

/// How many sums of 16 a loop can keep in registers beside its operands.
inline constexpr int accumulators = 24;

TROUPE_INLINE vf zero() {
  return _mm512_setzero_ps();
}
TROUPE_INLINE vf set1(float x) {
  return _mm512_set1_ps(x);
}
TROUPE_INLINE vf load(const float* p) {
  return _mm512_loadu_ps(p);
}
TROUPE_INLINE void store(float* p, vf x) {
  _mm512_storeu_ps(p, x);
}
TROUPE_INLINE vf load_f16(const std::uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
TROUPE_INLINE vf load_bf16(const std::uint16_t* p) {
  const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
}
/// The upper byte of an f16.
TROUPE_INLINE vf load_e5m2(const std::uint8_t* p) {
  const __m256i x = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return _mm512_cvtph_ps(_mm256_slli_epi16(x, 8));
}
/// Fraction and exponent of an f16, which is 2^8 smaller.
TROUPE_INLINE vf load_e4m3(const std::uint8_t* p) {
  const __m256i x = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  const __m256i bits = _mm256_set1_epi16(static_cast<short>(0xBFFF));  // the sign stands twice
  return _mm512_cvtph_ps(_mm256_and_si256(_mm256_slli_epi16(x, 7), bits));
}
TROUPE_INLINE void store_f16(std::uint16_t* p, vf x) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                      _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
TROUPE_INLINE vf add(vf a, vf b) {
  return _mm512_add_ps(a, b);
}
TROUPE_INLINE vf sub(vf a, vf b) {
  return _mm512_sub_ps(a, b);
}
TROUPE_INLINE vf mul(vf a, vf b) {
  return _mm512_mul_ps(a, b);
}
TROUPE_INLINE vf div(vf a, vf b) {
  return _mm512_div_ps(a, b);
}
TROUPE_INLINE vf fma(vf a, vf b, vf c) {
  return _mm512_fmadd_ps(a, b, c);
}
TROUPE_INLINE vf max(vf a, vf b) {
  return _mm512_max_ps(a, b);
}
TROUPE_INLINE vf min(vf a, vf b) {
  return _mm512_min_ps(a, b);
}
TROUPE_INLINE vf abs(vf a) {
  return _mm512_abs_ps(a);
}
TROUPE_INLINE vf round(vf a) {
  return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}
/// 2^n for integral n in -126..127.
TROUPE_INLINE vf power_of_two(vf n) {
  return _mm512_castsi512_ps(
      _mm512_slli_epi32(_mm512_add_epi32(_mm512_cvtps_epi32(n), _mm512_set1_epi32(127)), 23));
}
/// 2^(n - 127), n the lowest bits of x's pattern, 1 to 254; NaN for no x.
TROUPE_INLINE vf power_of_low_bits(vf x) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(x), 23));
}
TROUPE_INLINE vf swap_pairs(vf a) {
  return _mm512_permute_ps(a, 0xB1);
}
/// Lane i takes lane i ^ Distance.
template <int Distance>
TROUPE_INLINE vf swap_lanes(vf a) {
  if constexpr (Distance == 1) return _mm512_permute_ps(a, 0xB1);
  if constexpr (Distance == 2) return _mm512_permute_ps(a, 0x4E);
  if constexpr (Distance == 4) return _mm512_shuffle_f32x4(a, a, 0xB1);
  if constexpr (Distance == 8) return _mm512_shuffle_f32x4(a, a, 0x4E);
}
TROUPE_INLINE vf iota() {
  return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
TROUPE_INLINE vm less(vf a, vf b) {
  return _mm512_cmp_ps_mask(a, b, _CMP_LT_OQ);
}
TROUPE_INLINE bool any_nan(vf a) {
  return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q) != 0;
}
TROUPE_INLINE vf select(vm m, vf yes, vf no) {
  return _mm512_mask_blend_ps(m, no, yes);
}

/// Fixed trees, as in every set: 8+8, 4+4, 2+2, 1+1. A maximum keeps its second operand on NaN.
TROUPE_INLINE float reduce_add(vf x) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
TROUPE_INLINE float reduce_max(vf x) {
  const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(x), _mm512_extractf32x8_ps(x, 1));
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

/// x holds integers in -127..127: 16 codes, and their sum.
TROUPE_INLINE std::int32_t store_codes(std::int8_t* p, vf x) {
  const __m512i q = _mm512_cvtps_epi32(x);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(q));
  return _mm512_reduce_add_epi32(q);
}

/// The codes of one panel block, 16 rows x 32 columns, ready to be multiplied with many activation
/// rows.
struct code_block {
  __m512i w[8];

  TROUPE_INLINE __m512i bytes(const std::uint8_t* p) { return _mm512_loadu_si512(p); }
  inline __attribute__((always_inline)) void load_u4(const std::uint8_t* p) {
    const __m512i mask = _mm512_set1_epi8(15);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) {
      const __m512i x = bytes(p + 64 * i);
      w[i] = _mm512_and_si512(x, mask);
      w[i + 4] = _mm512_and_si512(_mm512_srli_epi16(x, 4), mask);
    }
  }
  inline __attribute__((always_inline)) void load_u8(const std::uint8_t* p) {
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) w[i] = bytes(p + 64 * i);
  }
  /// out[r] = offset[r] + sum of code * a over the columns of lines [Begin, End) for Rows rows of
  /// `a`, 32 bytes apart, exact. Rows side by side: one product takes five cycles, two are started
  /// each cycle; few rows take several partial sums instead, as integers may.
  template <bool FourBit, int Begin, int End, int Rows>
  inline __attribute__((always_inline)) void dots(const std::int8_t* a, const std::int32_t* offset,
                                                  vf* out) const {
    constexpr int parts = Rows == 1 ? 4 : Rows == 2 ? 2 : 1;
    __m512i sum[Rows][parts];
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) {
      sum[r][0] = _mm512_set1_epi32(offset[r]);
#pragma GCC unroll 4
      for (int p = 1; p < parts; ++p) sum[r][p] = _mm512_setzero_si512();
    }
#pragma GCC unroll 8
    for (int i = Begin; i < End; ++i) {
#pragma GCC unroll 8
      for (int r = 0; r < Rows; ++r) {
        std::int32_t four;
        __builtin_memcpy(&four, a + r * 32 + 4 * i, 4);
        sum[r][i % parts] = _mm512_dpbusd_epi32(sum[r][i % parts], w[i], _mm512_set1_epi32(four));
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) {
      if constexpr (parts == 4) {
        sum[r][0] = _mm512_add_epi32(sum[r][0], sum[r][1]);
        sum[r][2] = _mm512_add_epi32(sum[r][2], sum[r][3]);
        sum[r][0] = _mm512_add_epi32(sum[r][0], sum[r][2]);
      } else if constexpr (parts == 2) {
        sum[r][0] = _mm512_add_epi32(sum[r][0], sum[r][1]);
      }
      out[r] = _mm512_cvtepi32_ps(sum[r][0]);
    }
  }
};

}  // namespace troupe::gpu::TROUPE_ISA_NS
