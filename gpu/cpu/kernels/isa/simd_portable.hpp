// simd.hpp in plain C++ for any x86-64 (or any other) core: 16 floats are four vectors of four.
#pragma once
#include <cstdint>

#include "gpu/cpu/kernels/isa/half.hpp"

#define TROUPE_INLINE static inline __attribute__((always_inline))

namespace troupe::gpu::TROUPE_ISA_NS {

struct vf {
  typedef float quad __attribute__((vector_size(16)));
  quad q[4];
};
struct vm {
  typedef std::int32_t quad __attribute__((vector_size(16)));
  quad q[4];
};

/// How many sums of 16 a loop can keep in registers beside its operands.
inline constexpr int accumulators = 3;

template <class Op>
TROUPE_INLINE vf each(Op op) {
  return {{op(0), op(1), op(2), op(3)}};
}
template <class Op>
TROUPE_INLINE vf each_lane(Op op) {
  vf out;
  for (int i = 0; i < 16; ++i) out.q[i / 4][i % 4] = op(i);
  return out;
}

TROUPE_INLINE vf set1(float x) {
  return each([=](int) { return vf::quad{x, x, x, x}; });
}
TROUPE_INLINE vf zero() {
  return set1(0.0f);
}
TROUPE_INLINE vf load(const float* p) {
  vf out;
  __builtin_memcpy(&out, p, 64);
  return out;
}
TROUPE_INLINE void store(float* p, vf x) {
  __builtin_memcpy(p, &x, 64);
}
TROUPE_INLINE vf load_f16(const std::uint16_t* p) {
  return each_lane([=](int i) { return half_to_float(p[i]); });
}
TROUPE_INLINE vf load_bf16(const std::uint16_t* p) {
  return each_lane([=](int i) { return bf16_to_float(p[i]); });
}
/// The upper byte of an f16.
TROUPE_INLINE vf load_e5m2(const std::uint8_t* p) {
  return each_lane(
      [=](int i) { return half_to_float(static_cast<std::uint16_t>(std::uint32_t{p[i]} << 8)); });
}
/// Fraction and exponent of an f16, which is 2^8 smaller.
TROUPE_INLINE vf load_e4m3(const std::uint8_t* p) {
  return each_lane([=](int i) {
    return half_to_float(static_cast<std::uint16_t>((p[i] & 0x80u) << 8 | (p[i] & 0x7Fu) << 7));
  });
}
TROUPE_INLINE void store_f16(std::uint16_t* p, vf x) {
  for (int i = 0; i < 16; ++i) p[i] = float_to_half(x.q[i / 4][i % 4]);
}
TROUPE_INLINE vf add(const vf& x, const vf& y) {
  return each([&](int i) { return x.q[i] + y.q[i]; });
}
TROUPE_INLINE vf sub(const vf& x, const vf& y) {
  return each([&](int i) { return x.q[i] - y.q[i]; });
}
TROUPE_INLINE vf mul(const vf& x, const vf& y) {
  return each([&](int i) { return x.q[i] * y.q[i]; });
}
TROUPE_INLINE vf div(const vf& x, const vf& y) {
  return each([&](int i) { return x.q[i] / y.q[i]; });
}
/// Two roundings here: the baseline has no fused operation. The same on every path of this
/// instruction set.
TROUPE_INLINE vf fma(const vf& x, const vf& y, const vf& z) {
  return each([&](int i) { return x.q[i] * y.q[i] + z.q[i]; });
}
TROUPE_INLINE vf max(const vf& x, const vf& y) {
  return each([&](int i) { return x.q[i] > y.q[i] ? x.q[i] : y.q[i]; });
}
TROUPE_INLINE vf min(const vf& x, const vf& y) {
  return each([&](int i) { return x.q[i] < y.q[i] ? x.q[i] : y.q[i]; });
}
TROUPE_INLINE vf abs(const vf& x) {
  return each_lane([&](int i) { return __builtin_fabsf(x.q[i / 4][i % 4]); });
}
/// To nearest even, for |x| < 2^22.
TROUPE_INLINE vf round(const vf& x) {
  const vf magic = set1(12582912.0f);
  return sub(add(x, magic), magic);
}
/// 2^n for integral n in -126..127.
TROUPE_INLINE vf power_of_two(const vf& n) {
  return each([&](int i) {
    const vm::quad bits = (__builtin_convertvector(n.q[i], vm::quad) + 127) << 23;
    vf::quad out;
    __builtin_memcpy(&out, &bits, 16);
    return out;
  });
}
/// 2^(n - 127), n the lowest bits of x's pattern, 1 to 254; NaN for no x.
TROUPE_INLINE vf power_of_low_bits(const vf& x) {
  return each([&](int i) {
    vm::quad bits;
    __builtin_memcpy(&bits, &x.q[i], 16);
    bits = bits << 23;
    vf::quad out;
    __builtin_memcpy(&out, &bits, 16);
    return out;
  });
}
TROUPE_INLINE vf swap_pairs(const vf& x) {
  return each([&](int i) { return vf::quad{x.q[i][1], x.q[i][0], x.q[i][3], x.q[i][2]}; });
}
/// Lane i takes lane i ^ Distance.
template <int Distance>
TROUPE_INLINE vf swap_lanes(const vf& x) {
  return each_lane([&](int i) { return x.q[(i ^ Distance) / 4][(i ^ Distance) % 4]; });
}
TROUPE_INLINE vf iota() {
  return each_lane([](int i) { return static_cast<float>(i); });
}
TROUPE_INLINE vm less(const vf& x, const vf& y) {
  return {{x.q[0] < y.q[0], x.q[1] < y.q[1], x.q[2] < y.q[2], x.q[3] < y.q[3]}};
}
TROUPE_INLINE bool any_nan(const vf& x) {
  std::int32_t found = 0;
  for (int i = 0; i < 16; ++i) found |= x.q[i / 4][i % 4] != x.q[i / 4][i % 4];
  return found != 0;
}
TROUPE_INLINE vf select(const vm& m, const vf& yes, const vf& no) {
  return each([&](int i) { return m.q[i] ? yes.q[i] : no.q[i]; });
}

/// Fixed trees, as in every set: 8+8, 4+4, 2+2, 1+1. A maximum keeps its second operand on NaN.
TROUPE_INLINE float reduce_add(const vf& x) {
  float lane[16];
  store(lane, x);
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lane[i] = lane[i] + lane[i + width];
  }
  return lane[0];
}
TROUPE_INLINE float reduce_max(const vf& x) {
  float lane[16];
  store(lane, x);
  for (int width = 8; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lane[i] = lane[i] > lane[i + width] ? lane[i] : lane[i + width];
  }
  return lane[0];
}

/// x holds integers in -127..127: 16 codes, and their sum.
TROUPE_INLINE std::int32_t store_codes(std::int8_t* p, const vf& x) {
  std::int32_t sum = 0;
  for (int i = 0; i < 16; ++i) {
    const std::int32_t code = static_cast<std::int32_t>(x.q[i / 4][i % 4]);
    p[i] = static_cast<std::int8_t>(code);
    sum += code;
  }
  return sum;
}

/// The codes of one panel block, [column][row] as 16-bit numbers so that the compiler can multiply
/// them in vectors.
struct code_block {
  std::int16_t w[32][16];

  inline void load_u4(const std::uint8_t* p) {
    for (int i = 0; i < 256; ++i) {
      const int group = i / 64, row = i / 4 % 16, col = i % 4;
      w[group * 4 + col][row] = p[i] & 15;
      w[16 + group * 4 + col][row] = p[i] >> 4;
    }
  }
  inline void load_u8(const std::uint8_t* p) {
    for (int i = 0; i < 512; ++i) w[i / 64 * 4 + i % 4][i / 4 % 16] = p[i];
  }
  /// out[r] = offset[r] + sum of code * a over the columns of lines [Begin, End) for Rows rows of
  /// `a`, 32 bytes apart, exact.
  template <bool FourBit, int Begin, int End, int Rows>
  inline void dots(const std::int8_t* a, const std::int32_t* offset, vf* out) const {
    for (int row = 0; row < Rows; ++row) {
      std::int32_t sum[16];
      for (int r = 0; r < 16; ++r) sum[r] = offset[row];
      for (int c = 4 * Begin; c < 4 * End; ++c) {
        const std::int32_t x = a[row * 32 + c];
        for (int r = 0; r < 16; ++r) sum[r] += w[c][r] * x;
      }
      out[row] = each_lane([&](int i) { return static_cast<float>(sum[i]); });
    }
  }
};

}  // namespace troupe::gpu::TROUPE_ISA_NS
