// Layouts shared by the ops: weight panels and activation tiles. Plain structs of pointers and
// numbers, because units compiled for different instruction sets include them; they own nothing and
// never allocate.
//
//   weight panel: 16 output rows x all columns        activation tile: 8 rows x all columns
//     scales  [block][what panel_scales says, x16]      codes  [block][row 0..7][32 x int8]
//     codes   [block][group][row 0..15][4 columns]      scales [block] tile_scales
#pragma once
#include <cstddef>
#include <cstdint>

namespace troupe::gpu {

inline constexpr std::uint32_t panel_rows = 16;  ///< output rows of one weight panel
inline constexpr std::uint32_t block_cols = 32;  ///< columns that share a scale
inline constexpr std::uint32_t tile_rows = 8;    ///< activation rows computed together

/// The form of a panel. Several of a file's tensor types share one
/// (gpu/cpu/weights/pack_weights.hpp). weight = scale * code (+ minimum).
enum class weight_kind : std::uint8_t {
  f32,
  f16,
  bf16,
  q4_0,  ///< codes 4 bits, 8 below zero
  q4_1,  ///< codes 4 bits, and a minimum
  q8_0,  ///< codes 8 bits, signed
  q4_k,  ///< codes 4 bits, and a minimum; 32-bit scales
  q5_k,  ///< codes 8 bits, signed, and a minimum; 32-bit scales
  q6_k   ///< codes 8 bits, signed, a 32-bit scale for 16 columns
};

/// What stands before the codes for each block of 32 columns, and how wide the codes are.
struct panel_scales {
  bool quantized = false;
  bool four_bit = false;  ///< codes of 4 bits; else 8 bits, stored with 128 added
  bool wide = false;      ///< f32 scales and minima; else f16
  bool minimum = false;   ///< scale x16, minimum x16
  bool halves = false;    ///< scale of columns 0..15 x16, of columns 16..31 x16
  constexpr std::size_t scale_bytes() const {
    return panel_rows * (wide ? 4u : 2u) * (minimum || halves ? 2u : 1u);
  }
  constexpr std::size_t code_bytes() const {
    return std::size_t{panel_rows} * block_cols / (four_bit ? 2u : 1u);
  }
};

constexpr panel_scales scales_of(weight_kind kind) {
  switch (kind) {
    case weight_kind::f32:
    case weight_kind::f16:
    case weight_kind::bf16:
      break;
    case weight_kind::q4_0:
      return {true, true, false, false, false};
    case weight_kind::q4_1:
      return {true, true, false, true, false};
    case weight_kind::q8_0:
      return {true, false, false, false, false};
    case weight_kind::q4_k:
      return {true, true, true, true, false};
    case weight_kind::q5_k:
      return {true, false, true, true, false};
    case weight_kind::q6_k:
      return {true, false, true, false, true};
  }
  return {};
}

constexpr bool is_quantized(weight_kind kind) {
  return scales_of(kind).quantized;
}

/// A matrix [rows][cols] repacked into panels; rows and cols are padded with zero weights.
struct packed_matrix {
  weight_kind kind = weight_kind::f32;
  std::uint32_t rows = 0;
  std::uint32_t cols = 0;
  std::uint32_t panels = 0;  ///< ceil(rows / 16)
  std::uint32_t blocks = 0;  ///< ceil(cols / 32)
  std::size_t panel_bytes = 0;
  std::size_t codes_offset = 0;  ///< start of the codes inside a panel
  const std::byte* data = nullptr;
};

/// Scales of one block of 32 columns for the 8 rows of a tile: value = scale * code. Sums of 32
/// codes are at most 32 * 127, so 16 bits hold them.
struct tile_scales {
  float scale[tile_rows];
  float sum[tile_rows];              ///< scale * code_sum
  std::int16_t code_sum[tile_rows];  ///< sum of the 32 codes
  std::int16_t low_sum[tile_rows];   ///< sum of the first 16
};

/// Rows of activations, as 32-bit floats, as 8-bit tiles, or both (a null pointer means: not
/// wanted).
struct activation {
  float* values = nullptr;  ///< [row][stride]; columns up to blocks * 32 are readable
  std::size_t stride = 0;
  std::int8_t* codes = nullptr;   ///< [tile][block][8][32]
  tile_scales* scales = nullptr;  ///< [tile][block]
  std::uint32_t blocks = 0;
  /// What the codes leave of the values, in codes of its own: value = scale * code + rest_scale *
  /// rest_code. Null: not wanted.
  std::int8_t* rest_codes = nullptr;
  tile_scales* rest_scales = nullptr;

  /// The rest as an input: a product with both is the sum of two.
  activation rest() const { return {values, stride, rest_codes, rest_scales, blocks}; }
};

}  // namespace troupe::gpu
