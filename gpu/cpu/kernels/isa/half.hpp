// f16 <-> f32 in plain integers, for the portable kernels, the file reader and the tests. Round to
// nearest even.
#pragma once
#include <cstdint>

namespace troupe::gpu {

[[maybe_unused]] static inline float half_to_float(std::uint16_t h) {
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000u) << 16;
  const std::uint32_t exponent = (h >> 10) & 31u;
  const std::uint32_t fraction = h & 1023u;
  if (exponent == 0) {  // zero or subnormal: fraction * 2^-24, exact
    const float value = static_cast<float>(fraction) * 0x1p-24f;
    return sign ? -value : value;
  }
  const std::uint32_t bits =
      sign | (exponent == 31 ? 0x7F800000u : (exponent + 112) << 23) | fraction << 13;
  float value;
  __builtin_memcpy(&value, &bits, 4);
  return value;
}

/// bf16 is the upper half of an f32.
[[maybe_unused]] static inline float bf16_to_float(std::uint16_t b) {
  const std::uint32_t bits = static_cast<std::uint32_t>(b) << 16;
  float value;
  __builtin_memcpy(&value, &bits, 4);
  return value;
}

[[maybe_unused]] static inline std::uint16_t float_to_half(float value) {
  std::uint32_t bits;
  __builtin_memcpy(&bits, &value, 4);
  const std::uint32_t sign = bits >> 16 & 0x8000u;
  bits &= 0x7FFFFFFFu;
  if (bits > 0x7F800000u) return static_cast<std::uint16_t>(sign | 0x7E00u);
  if (bits >= 0x47800000u) return static_cast<std::uint16_t>(sign | 0x7C00u);
  if (bits < 0x38800000u) {  // subnormal: adding 0.5 leaves the rounded fraction in the low bits
    float small;
    __builtin_memcpy(&small, &bits, 4);
    small += 0.5f;
    __builtin_memcpy(&bits, &small, 4);
    return static_cast<std::uint16_t>(sign | (bits - 0x3F000000u));
  }
  bits += 0xC8000FFFu + (bits >> 13 & 1u);
  return static_cast<std::uint16_t>(sign | bits >> 13);
}

}  // namespace troupe::gpu
