// Layouts shared by the ops: weight panels and activation tiles. Plain structs of pointers and
// numbers, because units compiled for different instruction sets include them; owned by nobody
// here, never allocates.
//
//   weight panel: 16 output rows x all columns        activation tile: 8 rows x all columns
//     scales  [block][f16 d x16 | f16 m x16]            codes  [block][row 0..7][32 x int8]
//     codes   [block][group][row 0..15][4 columns]      scales [block]{scale, sum, code_sum}[row
//     0..7]
#pragma once
#include <cstddef>
#include <cstdint>

namespace troupe::gpu {

inline constexpr std::uint32_t panel_rows = 16;  ///< output rows of one weight panel
inline constexpr std::uint32_t block_cols = 32;  ///< columns that share a scale
inline constexpr std::uint32_t tile_rows = 8;    ///< activation rows computed together

enum class weight_kind : std::uint8_t { f32, f16, q4_0, q4_1, q8_0 };

constexpr bool is_quantized(weight_kind kind) {
  return kind == weight_kind::q4_0 || kind == weight_kind::q4_1 || kind == weight_kind::q8_0;
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

/// Scales of one block of 32 columns for the 8 rows of a tile: value = scale * code.
struct tile_scales {
  float scale[tile_rows];
  float sum[tile_rows];              ///< scale * code_sum
  std::int32_t code_sum[tile_rows];  ///< sum of the 32 codes
};

/// Rows of activations, as 32-bit floats, as 8-bit tiles, or both (a null pointer means: not
/// wanted).
struct activation {
  float* values = nullptr;  ///< [row][stride]; columns up to blocks * 32 are readable
  std::size_t stride = 0;
  std::int8_t* codes = nullptr;   ///< [tile][block][8][32]
  tile_scales* scales = nullptr;  ///< [tile][block]
  std::uint32_t blocks = 0;
};

}  // namespace troupe::gpu
