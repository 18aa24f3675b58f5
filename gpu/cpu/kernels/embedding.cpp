#include "gpu/cpu/kernels/embedding.hpp"

#include <cstring>

#include "gpu/cpu/kernels/isa/half.hpp"
#include "gpu/cpu/weights/block_codes.hpp"

namespace troupe::gpu {

namespace {

float read_half(const std::byte* p) {
  std::uint16_t bits;
  std::memcpy(&bits, p, 2);
  return half_to_float(bits);
}

float read_bf16(const std::byte* p) {
  std::uint16_t bits;
  std::memcpy(&bits, p, 2);
  return bf16_to_float(bits);
}

float read_float(const std::byte* p) {
  float value;
  std::memcpy(&value, p, 4);
  return value;
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

/// Columns [32 * b, 32 * b + 32) of a lane, whose codes start at `codes`.
void lane_codes(const std::byte* codes, bool four_bit, float* out) {
  for (std::uint32_t i = 0; i < (four_bit ? 16u : 32u); ++i) {
    const auto code = std::to_integer<std::int32_t>(codes[i / 4 * 64 + i % 4]);
    out[i] = static_cast<float>(four_bit ? code & 15 : code - 128);
    if (four_bit) out[i + 16] = static_cast<float>(code >> 4);
  }
}

void quantized_lane(const packed_matrix& m, const std::byte* panel, std::uint32_t lane,
                    float* out) {
  const panel_scales form = scales_of(m.kind);
  const bool eight_below = m.kind == weight_kind::q4_0;
  for (std::uint32_t b = 0; b < m.blocks; ++b, out += block_cols) {
    const std::byte* scales = panel + b * form.scale_bytes();
    const auto number = [&](std::uint32_t i) {
      const std::size_t at = i * panel_rows + lane;
      return form.wide ? read_float(scales + at * 4) : read_half(scales + at * 2);
    };
    const float d = number(0);
    const float upper = form.halves ? number(1) : d;
    const float minimum = form.minimum ? number(1) : -8.0f * d;
    float code[block_cols];
    lane_codes(panel + m.codes_offset + b * form.code_bytes() + lane * 4, form.four_bit, code);
    for (std::uint32_t c = 0; c < block_cols; ++c) {
      const float product = (c < 16 ? d : upper) * code[c];
      out[c] = form.minimum || eight_below ? product + minimum : product;
    }
  }
}

}  // namespace

void packed_row(const packed_matrix& m, std::uint32_t row, float* out) {
  const std::byte* panel = m.data + row / panel_rows * m.panel_bytes;
  const std::uint32_t lane = row % panel_rows;
  if (is_quantized(m.kind)) return quantized_lane(m, panel, lane, out);
  for (std::uint32_t c = 0; c < m.cols; ++c) {
    const std::size_t at = std::size_t{c} * panel_rows + lane;
    if (m.kind == weight_kind::f32) {
      out[c] = read_float(panel + at * 4);
    } else {
      out[c] = m.kind == weight_kind::f16 ? read_half(panel + at * 2) : read_bf16(panel + at * 2);
    }
  }
}

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
      for (std::uint32_t c = 0; c < p.cols; ++c) p.out[c] = read_bf16(in + std::size_t{c} * 2);
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
