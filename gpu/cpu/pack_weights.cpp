#include "gpu/cpu/pack_weights.hpp"

#include <algorithm>
#include <cstring>

#include "gpu/kernels/embedding.hpp"

namespace troupe::gpu {

namespace {

std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// Row r of a panel, 4-bit codes: the file's low nibbles are columns 0..15 and its high
/// ones 16..31, as in the panel, so a word of four bytes moves as it is.
void pack_four_bit(const packed_matrix& m, const std::byte* in, std::uint32_t r, std::byte* panel) {
  const bool has_min = m.kind == weight_kind::q4_1;
  std::byte* scales = panel + r * 2;
  std::byte* codes = panel + m.codes_offset + r * 4;
  for (std::uint32_t b = 0; b < m.blocks; ++b) {
    std::memcpy(scales, in, 2);
    if (has_min) std::memcpy(scales + 32, in + 2, 2);
    const std::byte* nibbles = in + (has_min ? 4 : 2);
    for (std::uint32_t g = 0; g < 4; ++g) std::memcpy(codes + g * 64, nibbles + g * 4, 4);
    in += has_min ? 20 : 18;
    scales += has_min ? 64 : 32;
    codes += 256;
  }
}

void pack_eight_bit(const packed_matrix& m, const std::byte* in, std::uint32_t r,
                    std::byte* panel) {
  std::byte* codes = panel + m.codes_offset + r * 4;
  for (std::uint32_t b = 0; b < m.blocks; ++b, in += 34, codes += 512) {
    std::memcpy(panel + b * 32 + r * 2, in, 2);
    for (std::uint32_t g = 0; g < 8; ++g) {
      std::uint32_t word;
      std::memcpy(&word, in + 2 + g * 4, 4);
      word ^= 0x80808080u;  // -128..127 to 0..255
      std::memcpy(codes + g * 64, &word, 4);
    }
  }
}

void pack_plain(const packed_matrix& m, const std::byte* in, std::uint32_t r, std::byte* panel) {
  const std::size_t bytes = m.kind == weight_kind::f32 ? 4 : 2;
  for (std::uint32_t c = 0; c < m.cols; ++c) {
    std::memcpy(panel + (std::size_t{c} * panel_rows + r) * bytes, in + c * bytes, bytes);
  }
}

}  // namespace

packed_matrix packed_shape(weight_kind kind, std::uint32_t rows, std::uint32_t cols) {
  packed_matrix m;
  m.kind = kind;
  m.rows = rows;
  m.cols = cols;
  m.panels = (rows + panel_rows - 1) / panel_rows;
  m.blocks = (cols + block_cols - 1) / block_cols;
  const std::size_t columns = std::size_t{m.blocks} * block_cols;
  switch (kind) {
    case weight_kind::f32:
      m.panel_bytes = columns * panel_rows * 4;
      break;
    case weight_kind::f16:
      m.panel_bytes = columns * panel_rows * 2;
      break;
    case weight_kind::q4_0:
      m.codes_offset = round_up(m.blocks * 32, 64);
      break;
    case weight_kind::q4_1:
      m.codes_offset = std::size_t{m.blocks} * 64;
      break;
    case weight_kind::q8_0:
      m.codes_offset = round_up(m.blocks * 32, 64);
      break;
  }
  if (is_quantized(kind)) {
    m.panel_bytes = m.codes_offset + m.blocks * (kind == weight_kind::q8_0 ? 512u : 256u);
  }
  return m;
}

std::size_t packed_bytes(const packed_matrix& m) {
  return m.panels * m.panel_bytes;
}

void pack_panels(const packed_matrix& m, const std::byte* file_rows, std::uint32_t begin,
                 std::uint32_t end, std::byte* to) {
  const std::size_t row_bytes = file_row_bytes(m.kind, m.cols);
  for (std::uint32_t p = begin; p < end; ++p) {
    std::byte* panel = to + p * m.panel_bytes;
    const std::uint32_t rows = std::min(panel_rows, m.rows - p * panel_rows);
    for (std::uint32_t r = 0; r < rows; ++r) {
      const std::byte* in = file_rows + (std::size_t{p} * panel_rows + r) * row_bytes;
      switch (m.kind) {
        case weight_kind::f32:
        case weight_kind::f16:
          pack_plain(m, in, r, panel);
          break;
        case weight_kind::q4_0:
        case weight_kind::q4_1:
          pack_four_bit(m, in, r, panel);
          break;
        case weight_kind::q8_0:
          pack_eight_bit(m, in, r, panel);
          break;
      }
    }
  }
}

}  // namespace troupe::gpu
