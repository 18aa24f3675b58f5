#include "gpu/cpu/weights/block_codes.hpp"

#include <cstring>

#include "gpu/cpu/kernels/isa/half.hpp"

namespace troupe::gpu {

namespace {

constexpr std::uint32_t blocks_of_super = 8;  ///< a K-type's block of 256 columns is 8 of 32

float read_half(const std::byte* p) {
  std::uint16_t bits;
  std::memcpy(&bits, p, 2);
  return half_to_float(bits);
}

std::uint32_t byte_at(const std::byte* p, std::uint32_t i) {
  return std::to_integer<std::uint32_t>(p[i]);
}

constexpr std::uint64_t each_byte = 0x0101010101010101u;

/// Bit i of `bits` as byte i, 0 or 1.
std::uint64_t spread(std::uint32_t bits) {
  const std::uint64_t own = bits * each_byte & 0x8040201008040201u;
  return (own + 0x7f * each_byte) >> 7 & each_byte;  // a byte that has its bit reaches 128
}

/// Q5_0 and Q5_1: d, [m,] the fifth bits of all 32 codes, the low nibbles of columns 0..15 and,
/// above them, 16..31. Q5_0's codes are 16 below zero.
block_codes five_bits(const std::byte* in, bool minimum) {
  block_codes out;
  out.scale[0] = out.scale[1] = read_half(in);
  out.minimum = minimum ? read_half(in + 2) : 0.0f;
  in += minimum ? 4 : 2;
  for (std::uint32_t g = 0; g < 4; ++g) {  // eight codes at once, each in a byte of a word
    std::uint64_t low;
    std::memcpy(&low, in + 4 + g % 2 * 8, 8);
    std::uint64_t codes = (low >> (g / 2 * 4) & 0x0f * each_byte) | spread(byte_at(in, g)) << 4;
    // 16 less in every byte; the bit put on top keeps a byte from borrowing of the next.
    if (!minimum) codes = ((codes | 0x80 * each_byte) - 0x10 * each_byte) ^ 0x80 * each_byte;
    std::memcpy(out.code + g * 8, &codes, 8);
  }
  return out;
}

/// Q4_K and Q5_K: d, dmin, 8 scales and 8 minima of 6 bits in 12 bytes, [the fifth bits: bit b of
/// byte c is block b's column c,] nibbles: blocks 2i and 2i + 1 in the low and high halves of 32
/// bytes.
block_codes four_or_five_bits(const std::byte* in, std::uint32_t block, bool five) {
  const std::byte* packed = in + 4;
  std::uint32_t scale, minimum;
  if (block < 4) {
    scale = byte_at(packed, block) & 63u;
    minimum = byte_at(packed, block + 4) & 63u;
  } else {
    const std::uint32_t low = byte_at(packed, block + 4);
    scale = (low & 15u) | byte_at(packed, block - 4) >> 6 << 4;
    minimum = low >> 4 | byte_at(packed, block) >> 6 << 4;
  }
  block_codes out;
  out.scale[0] = out.scale[1] = read_half(in) * static_cast<float>(scale);
  out.minimum = -(read_half(in + 2) * static_cast<float>(minimum));
  const std::byte* fifth = in + 16;
  const std::byte* nibbles = in + (five ? 48 : 16) + block / 2 * 32;
  for (std::uint32_t c = 0; c < 32; ++c) {
    std::uint32_t code = byte_at(nibbles, c) >> (block % 2 * 4) & 15u;
    if (five) code |= (byte_at(fifth, c) >> block & 1u) << 4;
    out.code[c] = static_cast<std::int8_t>(code);
  }
  return out;
}

/// Q6_K: the low nibbles (128 bytes), the upper two bits (64 bytes), a signed scale for each 16
/// columns, d. Each half of 128 columns has 64 bytes of nibbles, blocks 0 and 1 low, 2 and 3 high,
/// and 32 bytes of four upper pairs.
block_codes six_bits(const std::byte* in, std::uint32_t block) {
  const std::uint32_t half = block / 4, quarter = block % 4;
  const std::byte* nibbles = in + half * 64 + quarter % 2 * 32;
  const std::byte* upper = in + 128 + half * 32;
  const std::byte* scales = in + 192 + block * 2;
  const float d = read_half(in + 208);
  block_codes out;
  out.scale[0] = d * static_cast<float>(std::to_integer<std::int8_t>(scales[0]));
  out.scale[1] = d * static_cast<float>(std::to_integer<std::int8_t>(scales[1]));
  out.minimum = 0.0f;
  for (std::uint32_t c = 0; c < 32; ++c) {
    const std::uint32_t low = byte_at(nibbles, c) >> (quarter / 2 * 4) & 15u;
    const std::uint32_t high = byte_at(upper, c) >> (quarter * 2) & 3u;
    out.code[c] = static_cast<std::int8_t>(static_cast<int>(low | high << 4) - 32);
  }
  return out;
}

}  // namespace

bool has_block_codes(tensor_type type) {
  switch (type) {
    case tensor_type::q5_0:
    case tensor_type::q5_1:
    case tensor_type::q4_k:
    case tensor_type::q5_k:
    case tensor_type::q6_k:
      return true;
    case tensor_type::f32:
    case tensor_type::f16:
    case tensor_type::bf16:
    case tensor_type::q4_0:
    case tensor_type::q4_1:
    case tensor_type::q8_0:
      break;
  }
  return false;
}

bool has_minimum(tensor_type type) {
  switch (type) {
    case tensor_type::q5_1:
    case tensor_type::q4_k:
    case tensor_type::q5_k:
      return true;
    case tensor_type::q5_0:
    case tensor_type::q6_k:
    case tensor_type::f32:
    case tensor_type::f16:
    case tensor_type::bf16:
    case tensor_type::q4_0:
    case tensor_type::q4_1:
    case tensor_type::q8_0:
      break;
  }
  return false;
}

block_codes read_block(tensor_type type, const std::byte* row, std::uint32_t block) {
  const std::size_t bytes = block_bytes(type);
  const std::byte* own = row + block * bytes;
  const std::byte* super = row + block / blocks_of_super * bytes;
  const std::uint32_t part = block % blocks_of_super;
  switch (type) {
    case tensor_type::q5_0:
      return five_bits(own, false);
    case tensor_type::q5_1:
      return five_bits(own, true);
    case tensor_type::q4_k:
      return four_or_five_bits(super, part, false);
    case tensor_type::q5_k:
      return four_or_five_bits(super, part, true);
    case tensor_type::q6_k:
      return six_bits(super, part);
    case tensor_type::f32:
    case tensor_type::f16:
    case tensor_type::bf16:
    case tensor_type::q4_0:
    case tensor_type::q4_1:
    case tensor_type::q8_0:
      break;
  }
  return {};  // has_block_codes says no
}

}  // namespace troupe::gpu
