#include "gpu/kernels/embedding.hpp"

#include <cstring>

#include "gpu/cpu/block_codes.hpp"
#include "gpu/cpu/half.hpp"
#include "gpu/kernels/tile.hpp"

namespace troupe::gpu {

namespace {

float read_half(const std::byte* p) {
  std::uint16_t bits;
  std::memcpy(&bits, p, 2);
  return half_to_float(bits);
}

void four_bit_row(const std::byte* in, std::uint32_t cols, bool has_min, float* out) {
  for (std::uint32_t c = 0; c < cols; c += block_cols, in += has_min ? 20 : 18) {
    const float d = read_half(in);
    const float m = has_min ? read_half(in + 2) : -8.0f * d;
    const std::byte* codes = in + (has_min ? 4 : 2);
    for (std::uint32_t i = 0; i < 16; ++i) {
      const auto code = std::to_integer<std::uint32_t>(codes[i]);
      out[c + i] = d * static_cast<float>(code & 15u) + m;
      out[c + 16 + i] = d * static_cast<float>(code >> 4) + m;
    }
  }
}

void eight_bit_row(const std::byte* in, std::uint32_t cols, float* out) {
  for (std::uint32_t c = 0; c < cols; c += block_cols, in += 34) {
    const float d = read_half(in);
    for (std::uint32_t i = 0; i < block_cols; ++i) {
      out[c + i] = d * static_cast<float>(std::to_integer<std::int8_t>(in[2 + i]));
    }
  }
}

void bf16_row(const std::byte* in, std::uint32_t cols, float* out) {
  for (std::uint32_t c = 0; c < cols; ++c) {
    std::uint16_t bits;
    std::memcpy(&bits, in + std::size_t{c} * 2, 2);
    out[c] = bf16_to_float(bits);
  }
}

/// scale * code is exact in f32 for all of these types; adding the minimum is the one rounding.
void code_row(tensor_type type, const std::byte* in, std::uint32_t cols, float* out) {
  const bool minimum = has_minimum(type);
  for (std::uint32_t b = 0; b < cols / block_cols; ++b, out += block_cols) {
    const block_codes block = read_block(type, in, b);
    for (std::uint32_t c = 0; c < block_cols; ++c) {
      const float product = block.scale[c / 16] * static_cast<float>(block.code[c]);
      out[c] = minimum ? product + block.minimum : product;
    }
  }
}

}  // namespace

std::size_t file_row_bytes(tensor_type type, std::uint32_t cols) {
  return std::size_t{cols} / block_elements(type) * block_bytes(type);
}

void embedding_row(const embedding_params& p) {
  const std::byte* in = p.rows + p.row * file_row_bytes(p.type, p.cols);
  switch (p.type) {
    case tensor_type::f32:
      std::memcpy(p.out, in, std::size_t{p.cols} * 4);
      return;
    case tensor_type::f16:
      for (std::uint32_t c = 0; c < p.cols; ++c) p.out[c] = read_half(in + std::size_t{c} * 2);
      return;
    case tensor_type::bf16:
      bf16_row(in, p.cols, p.out);
      return;
    case tensor_type::q4_0:
      four_bit_row(in, p.cols, false, p.out);
      return;
    case tensor_type::q4_1:
      four_bit_row(in, p.cols, true, p.out);
      return;
    case tensor_type::q8_0:
      eight_bit_row(in, p.cols, p.out);
      return;
    case tensor_type::q5_0:
    case tensor_type::q5_1:
    case tensor_type::q4_k:
    case tensor_type::q5_k:
    case tensor_type::q6_k:
      code_row(p.type, in, p.cols, p.out);
      return;
  }
}

}  // namespace troupe::gpu
