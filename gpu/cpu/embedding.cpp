#include "gpu/kernels/embedding.hpp"

#include <cstring>

#include "gpu/cpu/half.hpp"

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

}  // namespace

std::size_t file_row_bytes(weight_kind kind, std::uint32_t cols) {
  switch (kind) {
    case weight_kind::f32:
      return std::size_t{cols} * 4;
    case weight_kind::f16:
      return std::size_t{cols} * 2;
    case weight_kind::q4_0:
      return std::size_t{cols} / 32 * 18;
    case weight_kind::q4_1:
      return std::size_t{cols} / 32 * 20;
    case weight_kind::q8_0:
      break;
  }
  return std::size_t{cols} / 32 * 34;
}

void embedding_row(const embedding_params& p) {
  const std::byte* in = p.rows + p.row * file_row_bytes(p.kind, p.cols);
  switch (p.kind) {
    case weight_kind::f32:
      std::memcpy(p.out, in, std::size_t{p.cols} * 4);
      return;
    case weight_kind::f16:
      for (std::uint32_t c = 0; c < p.cols; ++c) p.out[c] = read_half(in + std::size_t{c} * 2);
      return;
    case weight_kind::q4_0:
      four_bit_row(in, p.cols, false, p.out);
      return;
    case weight_kind::q4_1:
      four_bit_row(in, p.cols, true, p.out);
      return;
    case weight_kind::q8_0:
      break;
  }
  for (std::uint32_t c = 0; c < p.cols; c += block_cols, in += 34) {
    const float d = read_half(in);
    for (std::uint32_t i = 0; i < block_cols; ++i) {
      p.out[c + i] = d * static_cast<float>(std::to_integer<std::int8_t>(in[2 + i]));
    }
  }
}

}  // namespace troupe::gpu
