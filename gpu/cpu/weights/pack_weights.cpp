#include "gpu/cpu/weights/pack_weights.hpp"

#include <algorithm>
#include <cstring>

#include "gpu/cpu/kernels/embedding.hpp"
#include "gpu/cpu/kernels/isa/half.hpp"
#include "gpu/cpu/weights/block_codes.hpp"

namespace troupe::gpu {

namespace {

constexpr std::size_t line_bytes = 64;  ///< of the cache, and of one operand of a dot product

std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// Blocks [begin, end) of a row of the file go to row r of a panel.
struct row_part {
  std::uint32_t r, begin, end;
};

/// 4-bit codes: the file's low nibbles are columns 0..15 and its high ones 16..31, as in the panel,
/// so a word of four bytes moves as it is.
void pack_four_bit(const packed_matrix& m, const std::byte* in, row_part part, std::byte* panel) {
  const bool has_min = m.kind == weight_kind::q4_1;
  std::byte* scales = panel + part.begin * (has_min ? 64 : 32) + part.r * 2;
  std::byte* codes = panel + m.codes_offset + part.begin * 256 + part.r * 4;
  in += part.begin * (has_min ? 20 : 18);
  for (std::uint32_t b = part.begin; b < part.end; ++b) {
    std::memcpy(scales, in, 2);
    if (has_min) std::memcpy(scales + 32, in + 2, 2);
    const std::byte* nibbles = in + (has_min ? 4 : 2);
    for (std::uint32_t g = 0; g < 4; ++g) std::memcpy(codes + g * 64, nibbles + g * 4, 4);
    in += has_min ? 20 : 18;
    scales += has_min ? 64 : 32;
    codes += 256;
  }
}

void pack_eight_bit(const packed_matrix& m, const std::byte* in, row_part part, std::byte* panel) {
  std::byte* codes = panel + m.codes_offset + part.begin * 512 + part.r * 4;
  in += part.begin * 34;
  for (std::uint32_t b = part.begin; b < part.end; ++b, in += 34, codes += 512) {
    std::memcpy(panel + b * 32 + part.r * 2, in, 2);
    for (std::uint32_t g = 0; g < 8; ++g) {
      std::uint32_t word;
      std::memcpy(&word, in + 2 + g * 4, 4);
      word ^= 0x80808080u;  // -128..127 to 0..255
      std::memcpy(codes + g * 64, &word, 4);
    }
  }
}

/// From the codes of the blocks. The form has room for every bit: 8-bit codes are
/// stored with 128 added, and an f16 scale comes back as the f16 it was.
void pack_codes(const packed_matrix& m, tensor_type type, const std::byte* in, row_part part,
                std::byte* panel) {
  const panel_scales form = scales_of(m.kind);
  const std::uint32_t r = part.r;
  for (std::uint32_t b = part.begin; b < part.end; ++b) {
    const block_codes block = read_block(type, in, b);
    std::byte* scales = panel + b * form.scale_bytes();
    std::byte* codes = panel + m.codes_offset + b * form.code_bytes() + r * 4;
    if (form.wide) {
      std::memcpy(scales + r * 4, &block.scale[0], 4);
      std::memcpy(scales + 64 + r * 4, form.halves ? &block.scale[1] : &block.minimum, 4);
    } else {
      const std::uint16_t bits = float_to_half(block.scale[0]);
      std::memcpy(scales + r * 2, &bits, 2);
    }
    std::uint8_t packed[block_cols];
    for (std::uint32_t c = 0; c < (form.four_bit ? 16u : 32u); ++c) {
      packed[c] = static_cast<std::uint8_t>(form.four_bit ? block.code[c] | block.code[c + 16] << 4
                                                          : block.code[c] + 128);
    }
    for (std::uint32_t g = 0; g < form.code_bytes() / 64; ++g)
      std::memcpy(codes + g * 64, packed + g * 4, 4);
  }
}

/// A panel of quantized rows, a few blocks of all rows at a time: a line of the panel holds four
/// bytes of every row, and is filled while it is in the first cache.
void pack_quantized(const packed_matrix& m, tensor_type type, const std::byte* rows_in,
                    std::uint32_t rows, std::byte* panel) {
  const std::size_t row_bytes = file_row_bytes(type, m.cols);
  constexpr std::uint32_t together = 32;
  for (std::uint32_t b = 0; b < m.blocks; b += together) {
    for (std::uint32_t r = 0; r < rows; ++r) {
      const std::byte* in = rows_in + r * row_bytes;
      const row_part part{r, b, std::min(m.blocks, b + together)};
      if (has_block_codes(type)) {
        pack_codes(m, type, in, part, panel);
      } else if (m.kind == weight_kind::q8_0) {
        pack_eight_bit(m, in, part, panel);
      } else {
        pack_four_bit(m, in, part, panel);
      }
    }
  }
}

/// A panel of plain numbers from its rows: a transposition, in squares that stay in the first
/// cache.
template <std::size_t number_bytes>
void pack_plain(const packed_matrix& m, const std::byte* in, std::uint32_t rows, std::byte* panel) {
  constexpr std::uint32_t square = 16;
  for (std::uint32_t begin = 0; begin < m.cols; begin += square) {
    const std::uint32_t end = std::min(m.cols, begin + square);
    for (std::uint32_t r = 0; r < rows; ++r) {
      const std::byte* row = in + std::size_t{r} * m.cols * number_bytes;
      for (std::uint32_t c = begin; c < end; ++c) {
        std::memcpy(panel + (std::size_t{c} * panel_rows + r) * number_bytes,
                    row + c * number_bytes, number_bytes);
      }
    }
  }
}

}  // namespace

weight_kind panel_kind(tensor_type type) {
  switch (type) {
    case tensor_type::f32:
      break;
    case tensor_type::f16:
      return weight_kind::f16;
    case tensor_type::bf16:
      return weight_kind::bf16;
    case tensor_type::q4_0:
      return weight_kind::q4_0;
    case tensor_type::q4_1:
      return weight_kind::q4_1;
    case tensor_type::q5_0:
    case tensor_type::q8_0:
      return weight_kind::q8_0;
    case tensor_type::q4_k:
      return weight_kind::q4_k;
    case tensor_type::q5_1:
    case tensor_type::q5_k:
      return weight_kind::q5_k;
    case tensor_type::q6_k:
      return weight_kind::q6_k;
  }
  return weight_kind::f32;
}

packed_matrix packed_shape(tensor_type type, std::uint32_t rows, std::uint32_t cols) {
  packed_matrix m;
  m.kind = panel_kind(type);
  m.rows = rows;
  m.cols = cols;
  m.panels = (rows + panel_rows - 1) / panel_rows;
  m.blocks = (cols + block_cols - 1) / block_cols;
  const panel_scales form = scales_of(m.kind);
  if (form.quantized) {
    m.codes_offset = round_up(m.blocks * form.scale_bytes(), line_bytes);
    m.panel_bytes = m.codes_offset + m.blocks * form.code_bytes();
  } else {
    const std::size_t columns = std::size_t{m.blocks} * block_cols;
    m.panel_bytes = columns * panel_rows * (m.kind == weight_kind::f32 ? 4 : 2);
  }
  return m;
}

std::size_t packed_bytes(const packed_matrix& m) {
  return m.panels * m.panel_bytes;
}

std::size_t padded_floats(std::uint64_t length) {
  return round_up(length, block_cols);
}

std::uint64_t vector_bytes(std::uint64_t length) {
  return round_up(padded_floats(length) * sizeof(float), line_bytes);
}

std::uint64_t matrix_bytes(const packed_matrix& m) {
  return round_up(packed_bytes(m), line_bytes);
}

std::uint64_t packed_weight_bytes(std::span<const gguf_tensor> tensors) {
  constexpr std::size_t page = 4096;  // memory_region takes whole ones
  std::uint64_t bytes = 0;
  for (const auto& t : tensors) {
    const bool vector = t.shape.size() < 2 || t.rows() == 1;
    bytes += vector ? vector_bytes(t.shape[0])
                    : matrix_bytes(packed_shape(t.type, static_cast<std::uint32_t>(t.rows()),
                                                static_cast<std::uint32_t>(t.shape[0])));
  }
  return round_up(bytes, page);
}

void pack_panels(const packed_matrix& m, tensor_type type, const std::byte* file_rows,
                 std::uint32_t begin, std::uint32_t end, std::byte* to) {
  const std::size_t row_bytes = file_row_bytes(type, m.cols);
  for (std::uint32_t p = begin; p < end; ++p) {
    std::byte* panel = to + p * m.panel_bytes;
    const std::uint32_t rows = std::min(panel_rows, m.rows - p * panel_rows);
    const std::byte* first = file_rows + std::size_t{p} * panel_rows * row_bytes;
    if (is_quantized(m.kind)) {
      pack_quantized(m, type, first, rows, panel);
    } else if (m.kind == weight_kind::f32) {
      pack_plain<4>(m, first, rows, panel);
    } else {
      pack_plain<2>(m, first, rows, panel);
    }
  }
}

}  // namespace troupe::gpu
