// simd.hpp for AVX2 with FMA and F16C: 16 floats are two registers.
#pragma once
#include <immintrin.h>

#include <cstdint>

#define TROUPE_INLINE static inline __attribute__((always_inline))

namespace troupe::gpu::TROUPE_ISA_NS {

struct vf {
  __m256 a, b;
};
using vm = vf;

/// How many sums of 16 a loop can keep in registers beside its operands.
inline constexpr int accumulators = 6;

TROUPE_INLINE vf zero() {
  return {_mm256_setzero_ps(), _mm256_setzero_ps()};
}
TROUPE_INLINE vf set1(float x) {
  return {_mm256_set1_ps(x), _mm256_set1_ps(x)};
}
TROUPE_INLINE vf load(const float* p) {
  return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)};
}
TROUPE_INLINE void store(float* p, vf x) {
  _mm256_storeu_ps(p, x.a);
  _mm256_storeu_ps(p + 8, x.b);
}
TROUPE_INLINE vf load_f16(const std::uint16_t* p) {
  const __m128i* q = reinterpret_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(q)), _mm256_cvtph_ps(_mm_loadu_si128(q + 1))};
}
TROUPE_INLINE __m256 load_bf16_half(const std::uint16_t* p) {
  const __m128i x = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
}
TROUPE_INLINE vf load_bf16(const std::uint16_t* p) {
  return {load_bf16_half(p), load_bf16_half(p + 8)};
}
TROUPE_INLINE vf halves_to_floats(__m256i x) {
  return {_mm256_cvtph_ps(_mm256_castsi256_si128(x)),
          _mm256_cvtph_ps(_mm256_extracti128_si256(x, 1))};
}
/// The upper byte of an f16.
TROUPE_INLINE vf load_e5m2(const std::uint8_t* p) {
  const __m256i x = _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  return halves_to_floats(_mm256_slli_epi16(x, 8));
}
/// Fraction and exponent of an f16, which is 2^8 smaller.
TROUPE_INLINE vf load_e4m3(const std::uint8_t* p) {
  const __m256i x = _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  const __m256i bits = _mm256_set1_epi16(static_cast<short>(0xBFFF));  // the sign stands twice
  return halves_to_floats(_mm256_and_si256(_mm256_slli_epi16(x, 7), bits));
}
TROUPE_INLINE void store_f16(std::uint16_t* p, vf x) {
  __m128i* q = reinterpret_cast<__m128i*>(p);
  _mm_storeu_si128(q, _mm256_cvtps_ph(x.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  _mm_storeu_si128(q + 1, _mm256_cvtps_ph(x.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
TROUPE_INLINE vf add(vf x, vf y) {
  return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)};
}
TROUPE_INLINE vf sub(vf x, vf y) {
  return {_mm256_sub_ps(x.a, y.a), _mm256_sub_ps(x.b, y.b)};
}
TROUPE_INLINE vf mul(vf x, vf y) {
  return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)};
}
TROUPE_INLINE vf div(vf x, vf y) {
  return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)};
}
TROUPE_INLINE vf fma(vf x, vf y, vf z) {
  return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)};
}
TROUPE_INLINE vf max(vf x, vf y) {
  return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)};
}
TROUPE_INLINE vf min(vf x, vf y) {
  return {_mm256_min_ps(x.a, y.a), _mm256_min_ps(x.b, y.b)};
}
TROUPE_INLINE vf abs(vf x) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}
TROUPE_INLINE vf round(vf x) {
  return {_mm256_round_ps(x.a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC),
          _mm256_round_ps(x.b, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC)};
}
TROUPE_INLINE __m256 power_of_two_half(__m256 n) {
  return _mm256_castsi256_ps(
      _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23));
}
/// 2^n for integral n in -126..127.
TROUPE_INLINE vf power_of_two(vf n) {
  return {power_of_two_half(n.a), power_of_two_half(n.b)};
}
/// 2^(n - 127), n the lowest bits of x's pattern, 1 to 254; NaN for no x.
TROUPE_INLINE vf power_of_low_bits(vf x) {
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(x.a), 23)),
          _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(x.b), 23))};
}
TROUPE_INLINE vf swap_pairs(vf x) {
  return {_mm256_permute_ps(x.a, 0xB1), _mm256_permute_ps(x.b, 0xB1)};
}
/// Lane i takes lane i ^ Distance.
template <int Distance>
TROUPE_INLINE vf swap_lanes(vf x) {
  if constexpr (Distance == 1) return {_mm256_permute_ps(x.a, 0xB1), _mm256_permute_ps(x.b, 0xB1)};
  if constexpr (Distance == 2) return {_mm256_permute_ps(x.a, 0x4E), _mm256_permute_ps(x.b, 0x4E)};
  if constexpr (Distance == 4)
    return {_mm256_permute2f128_ps(x.a, x.a, 1), _mm256_permute2f128_ps(x.b, x.b, 1)};
  if constexpr (Distance == 8) return {x.b, x.a};
}
TROUPE_INLINE vf iota() {
  return {_mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7), _mm256_setr_ps(8, 9, 10, 11, 12, 13, 14, 15)};
}
TROUPE_INLINE vm less(vf x, vf y) {
  return {_mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ), _mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ)};
}
TROUPE_INLINE bool any_nan(vf x) {
  return (_mm256_movemask_ps(_mm256_cmp_ps(x.a, x.a, _CMP_UNORD_Q)) |
          _mm256_movemask_ps(_mm256_cmp_ps(x.b, x.b, _CMP_UNORD_Q))) != 0;
}
TROUPE_INLINE vf select(vm m, vf yes, vf no) {
  return {_mm256_blendv_ps(no.a, yes.a, m.a), _mm256_blendv_ps(no.b, yes.b, m.b)};
}

/// Fixed trees, as in every set: 8+8, 4+4, 2+2, 1+1. A maximum keeps its second operand on NaN.
TROUPE_INLINE float reduce_add(vf x) {
  const __m256 eight = _mm256_add_ps(x.a, x.b);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}
TROUPE_INLINE float reduce_max(vf x) {
  const __m256 eight = _mm256_max_ps(x.a, x.b);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
}

/// x holds integers in -127..127: 16 codes, and their sum.
TROUPE_INLINE std::int32_t store_codes(std::int8_t* p, vf x) {
  const __m256i a = _mm256_cvtps_epi32(x.a), b = _mm256_cvtps_epi32(x.b);
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a, b), 0xD8);
  const __m128i low = _mm256_castsi256_si128(words), high = _mm256_extracti128_si256(words, 1);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(low, high));
  const __m256i eight = _mm256_add_epi32(a, b);
  __m128i sum = _mm_add_epi32(_mm256_castsi256_si128(eight), _mm256_extracti128_si256(eight, 1));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0x4E));
  sum = _mm_add_epi32(sum, _mm_shuffle_epi32(sum, 0xB1));
  return _mm_cvtsi128_si32(sum);
}

/// The codes of one panel block: w[2 * group + half], each 8 rows x 4 columns.
struct code_block {
  __m256i w[16];

  TROUPE_INLINE __m256i bytes(const std::uint8_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  TROUPE_INLINE __m256i four(const std::int8_t* a) {
    std::int32_t x;
    __builtin_memcpy(&x, a, 4);
    return _mm256_set1_epi32(x);
  }
  inline __attribute__((always_inline)) void load_u4(const std::uint8_t* p) {
    const __m256i mask = _mm256_set1_epi8(15);
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      const __m256i x = bytes(p + 32 * i);
      w[i] = _mm256_and_si256(x, mask);
      w[i + 8] = _mm256_and_si256(_mm256_srli_epi16(x, 4), mask);
    }
  }
  /// Stored with an offset of 128; signed again here.
  inline __attribute__((always_inline)) void load_u8(const std::uint8_t* p) {
#pragma GCC unroll 16
    for (int i = 0; i < 16; ++i) {
      w[i] = _mm256_xor_si256(bytes(p + 32 * i), _mm256_set1_epi8(static_cast<char>(0x80)));
    }
  }
  /// Pair sums of 4-bit codes are at most 2 * 15 * 127, so eight of them fit 16 bits.
  inline __attribute__((always_inline)) __m256 half_u4(const std::int8_t* a, std::int32_t offset,
                                                       int half) const {
    __m256i sum = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (int i = 0; i < 8; ++i) {
      sum = _mm256_add_epi16(sum, _mm256_maddubs_epi16(w[2 * i + half], four(a + 4 * i)));
    }
    const __m256i wide = _mm256_madd_epi16(sum, _mm256_set1_epi16(1));
    return _mm256_cvtepi32_ps(_mm256_add_epi32(wide, _mm256_set1_epi32(offset)));
  }
  /// |w| as the unsigned operand and sign(w) * a as the other: 2 * 128 * 127 does not saturate 16
  /// bits. Groups [Begin, End) of four columns.
  template <int Begin, int End>
  inline __attribute__((always_inline)) __m256 half_u8(const std::int8_t* a, int half) const {
    __m256i sum = _mm256_setzero_si256();
#pragma GCC unroll 8
    for (int i = Begin; i < End; ++i) {
      const __m256i x = w[2 * i + half];
      const __m256i pairs =
          _mm256_maddubs_epi16(_mm256_abs_epi8(x), _mm256_sign_epi8(four(a + 4 * i), x));
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
    }
    return _mm256_cvtepi32_ps(sum);
  }
  /// out[r] = offset[r] + sum of code * a over the columns of lines [Begin, End) for Rows rows of
  /// `a`, 32 bytes apart, exact. The offset belongs to unsigned codes; those of 8 bits are signed
  /// here, and the integer is the same.
  template <bool FourBit, int Begin, int End, int Rows>
  inline __attribute__((always_inline)) void dots(const std::int8_t* a, const std::int32_t* offset,
                                                  vf* out) const {
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) {
      if constexpr (FourBit) {
        out[r] = {half_u4(a + r * 32, offset[r], 0), half_u4(a + r * 32, offset[r], 1)};
      } else {
        out[r] = {half_u8<Begin, End>(a + r * 32, 0), half_u8<Begin, End>(a + r * 32, 1)};
      }
    }
  }
};

}  // namespace troupe::gpu::TROUPE_ISA_NS
