// One token's K or V of one head into its block, coded. Included by units of an instruction set
// alone.
#pragma once
#include "gpu/cpu/kernels/attention.hpp"
#include "gpu/cpu/kernels/isa/simd.hpp"
#include "gpu/cpu/kernels/isa/spread_head.hpp"
#include "gpu/cpu/kernels/kv_view.hpp"

namespace troupe::gpu::TROUPE_ISA_NS {

struct head_place {
  std::uint32_t head_dim;
  std::uint32_t block_size;
  std::uint32_t token;  ///< in the block
};

/// To nearest even; NaN stays NaN.
TROUPE_INLINE std::uint16_t float_to_bf16(float x) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, &x, 4);
  const std::uint32_t rounded = (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16;
  return static_cast<std::uint16_t>(x != x ? 0x7FC0u : rounded);
}

/// |x| <= the format's largest value. To nearest even, by the bits of the float: a float with
/// Fraction bits of fraction and an exponent of the format's own bias; below its least normal value
/// the sum with a large number rounds to a multiple of the least subnormal one.
template <int Fraction, int Bias>
TROUPE_INLINE std::uint8_t float_to_fp8(float x) {
  constexpr int dropped = 23 - Fraction;
  constexpr float least = Bias == 7 ? 0x1p-6f : 0x1p-14f;  // normal
  constexpr float shift = Bias == 7 ? 0x1p14f : 0x1p7f;    // 2^23 of the least subnormal
  std::uint32_t bits;
  __builtin_memcpy(&bits, &x, 4);
  const std::uint32_t sign = bits >> 24 & 0x80u;
  bits &= 0x7FFFFFFFu;
  float size;
  __builtin_memcpy(&size, &bits, 4);
  const float shifted = size + shift;
  std::uint32_t small;
  __builtin_memcpy(&small, &shifted, 4);
  const std::uint32_t half = (1u << (dropped - 1)) - 1 + (bits >> dropped & 1u);
  const std::uint32_t normal = ((bits + half) >> dropped) - ((127u - Bias) << Fraction);
  return static_cast<std::uint8_t>(sign | (size < least ? small & 0xFFu : normal));
}

/// What one head's values have in common.
struct head_codes {
  float scale;    ///< as stored
  float inverse;  ///< values times this are what is rounded
};

/// `largest`: of the codes. NaN where a value is no number or infinite; zero where all are as good
/// as zero. `signed_by_largest`: the largest value gets the code -largest whatever its sign, which
/// leaves a code more to the others.
TROUPE_INLINE head_codes codes_of(const float* x, std::uint32_t head_dim, float largest,
                                  bool signed_by_largest) {
  vf above = zero(), below = zero(), sum = zero();
  for (std::uint32_t d = 0; d < head_dim; d += 16) {
    const vf value = load(x + d);
    above = max(above, value);
    below = max(below, sub(zero(), value));
    sum = add(sum, sub(value, value));  // NaN if any is NaN or infinite
  }
  const float most = reduce_max(above), least = reduce_max(below), check = reduce_add(sum);
  if (check != check) return {check, 0.0f};
  const float size = most > least ? most : least;
  if (size < 1e-30f) return {0.0f, 0.0f};
  const float sign = signed_by_largest && most > least ? -1.0f : 1.0f;
  return {sign * size / largest, sign * largest / size};
}

/// 0 .. head_dim - 1 of the codes, unsigned: `zero_point` stands for 0.
TROUPE_INLINE void round_codes(const float* x, std::uint32_t head_dim, const head_codes& codes,
                               float low, float high, std::uint8_t zero_point, std::uint8_t* out) {
  const bool none = codes.inverse == 0.0f;
  std::int8_t part[16];
  for (std::uint32_t d = 0; d < head_dim; d += 16) {
    const vf scaled = none ? zero() : round(mul(load(x + d), set1(codes.inverse)));
    store_codes(part, max(set1(low), min(set1(high), scaled)));
    for (int i = 0; i < 16; ++i) out[d + i] = static_cast<std::uint8_t>(part[i] + zero_point);
  }
}

template <kv_encoding Encoding>
TROUPE_INLINE float fp8_codes(const float* x, std::uint32_t head_dim, std::uint8_t* out) {
  constexpr bool e4m3 = Encoding == kv_encoding::fp8_e4m3;
  const head_codes codes = codes_of(x, head_dim, e4m3 ? 448.0f : 57344.0f, false);
  float part[16];
  for (std::uint32_t d = 0; d < head_dim; d += 16) {
    const vf scaled = codes.inverse == 0.0f ? zero() : mul(load(x + d), set1(codes.inverse));
    store(part, scaled);
    for (int i = 0; i < 16; ++i) {
      out[d + i] = e4m3 ? float_to_fp8<3, 7>(part[i]) : float_to_fp8<2, 15>(part[i]);
    }
  }
  // The kernels read e4m3 as the f16 with the same fraction and exponent, which is 2^8 smaller.
  return e4m3 ? codes.scale * 256.0f : codes.scale;
}

TROUPE_INLINE float int8_codes(const float* x, std::uint32_t head_dim, std::uint8_t* out) {
  const head_codes codes = codes_of(x, head_dim, 127.0f, false);
  round_codes(x, head_dim, codes, -127.0f, 127.0f, 128, out);
  return codes.scale;
}

TROUPE_INLINE float int4_codes(const float* x, std::uint32_t head_dim, std::uint8_t* out) {
  const head_codes codes = codes_of(x, head_dim, 8.0f, true);
  round_codes(x, head_dim, codes, -8.0f, 7.0f, 8, out);
  return codes.scale;
}

/// Codes of a head of the encodings with scales, in the order of the dimensions; answered is the
/// scale.
TROUPE_INLINE float scaled_codes(const kv_side& side, const float* x, std::uint32_t head_dim,
                                 std::uint8_t* out) {
  if (side.encoding == kv_encoding::fp8_e4m3) {
    return fp8_codes<kv_encoding::fp8_e4m3>(x, head_dim, out);
  }
  if (side.encoding == kv_encoding::fp8_e5m2) {
    return fp8_codes<kv_encoding::fp8_e5m2>(x, head_dim, out);
  }
  alignas(64) float spread[head_dim_max];
  for (std::uint32_t d = 0; d < head_dim; d += 16) store(spread + d, load(x + d));
  spread_head(spread, head_dim);
  return side.encoding == kv_encoding::int8 ? int8_codes(spread, head_dim, out)
                                            : int4_codes(spread, head_dim, out);
}

/// 16-bit values in the order of the dimensions.
TROUPE_INLINE void half_values(kv_encoding encoding, const float* x, std::uint32_t head_dim,
                               std::uint16_t* out) {
  for (std::uint32_t d = 0; d < head_dim; d += 16) {
    if (encoding == kv_encoding::f16) {
      store_f16(out + d, load(x + d));
    } else {
      for (std::uint32_t i = d; i < d + 16; ++i) out[i] = float_to_bf16(x[i]);
    }
  }
}

TROUPE_INLINE void store_scale(const kv_side& side, const head_place& at, float scale,
                               std::byte* head) {
  __builtin_memcpy(head + side.scales + std::size_t{at.token} * 4, &scale, 4);
}

static void store_key(const kv_side& side, const head_place& at, const float* x, std::byte* head) {
  const std::size_t size = at.block_size, dim = at.head_dim;
  auto* bytes = reinterpret_cast<std::uint8_t*>(head);
  if (!side.scaled()) {  // [dim][token]
    std::uint16_t half[head_dim_max];
    half_values(side.encoding, x, at.head_dim, half);
    auto* to = reinterpret_cast<std::uint16_t*>(head) + at.token;
    for (std::size_t d = 0; d < dim; ++d) to[d * size] = half[d];
    return;
  }
  std::uint8_t codes[head_dim_max];
  store_scale(side, at, scaled_codes(side, x, at.head_dim, codes), head);
  const std::size_t group = at.token / 16, lane = at.token % 16;
  if (side.encoding == kv_encoding::int8) {  // [16 tokens][4 dims][token][dim]
    std::uint8_t* to = bytes + group * 16 * dim + lane * 4;
    for (std::size_t d = 0; d < dim; d += 4) __builtin_memcpy(to + d * 16, codes + d, 4);
  } else if (side.encoding == kv_encoding::int4) {  // the same of 8 dims: the first four below
    std::uint8_t* to = bytes + group * 8 * dim + lane * 4;
    for (std::size_t d = 0; d < dim; d += 8) {
      for (std::size_t i = 0; i < 4; ++i) {
        to[d * 8 + i] = static_cast<std::uint8_t>(codes[d + i] | codes[d + 4 + i] << 4);
      }
    }
  } else {  // [dim][token]
    for (std::size_t d = 0; d < dim; ++d) bytes[d * size + at.token] = codes[d];
  }
}

static void store_value(const kv_side& side, const head_place& at, const float* x,
                        std::byte* head) {
  const std::size_t dim = at.head_dim, token = at.token;
  auto* bytes = reinterpret_cast<std::uint8_t*>(head);
  if (!side.scaled()) {  // [token][dim]
    half_values(side.encoding, x, at.head_dim,
                reinterpret_cast<std::uint16_t*>(head) + token * dim);
    return;
  }
  std::uint8_t codes[head_dim_max];
  store_scale(side, at, scaled_codes(side, x, at.head_dim, codes), head);
  const std::size_t four = token / 4, lane = token % 4;
  if (side.encoding == kv_encoding::int8) {  // [4 tokens][dim][token]
    std::uint8_t* to = bytes + four * 4 * dim + lane;
    for (std::size_t d = 0; d < dim; ++d) to[d * 4] = codes[d];
  } else if (side.encoding == kv_encoding::int4) {  // the same of 32 dims: the first 16 below
    std::uint8_t* to = bytes + four * 2 * dim + lane;
    for (std::size_t d = 0; d < dim; d += 32) {
      for (std::size_t i = 0; i < 16; ++i) {
        to[d * 2 + i * 4] = static_cast<std::uint8_t>(codes[d + i] | codes[d + 16 + i] << 4);
      }
    }
  } else {  // [token][dim]
    __builtin_memcpy(bytes + token * dim, codes, dim);
  }
}

}  // namespace troupe::gpu::TROUPE_ISA_NS
