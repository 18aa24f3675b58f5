// The inner loop of every matmul: one weight panel times one tile of 1 to 8 activation rows, sums
// in registers. The operations of a row do not depend on how many rows share the tile: that is what
// keeps results independent of batching. Included by units of an instruction set alone.
#pragma once
#include "gpu/cpu/simd.hpp"
#include "gpu/kernels/tile.hpp"

namespace troupe::gpu::TROUPE_ISA_NS {

template <weight_kind Kind, int Rows>
TROUPE_INLINE void dot_quantized(const packed_matrix& m, const std::byte* panel,
                                 const activation& in, std::uint32_t tile, vf* acc) {
  constexpr bool has_min = Kind == weight_kind::q4_1;
  constexpr std::int32_t zero_point = Kind == weight_kind::q8_0 ? 128 : 8;
  constexpr std::size_t block_bytes = Kind == weight_kind::q8_0 ? 512 : 256;
  const std::uint16_t* d = reinterpret_cast<const std::uint16_t*>(panel);
  const std::uint8_t* codes = reinterpret_cast<const std::uint8_t*>(panel + m.codes_offset);
  const std::int8_t* a = in.codes + std::size_t{tile} * in.blocks * tile_rows * block_cols;
  const tile_scales* s = in.scales + std::size_t{tile} * in.blocks;
  for (std::uint32_t b = 0; b < m.blocks; ++b) {
    if constexpr (Rows <=
                  2) {  // bound by memory: ask for the codes some blocks ahead, over panel ends too
      for (std::size_t line = 0; line < block_bytes; line += 64) {
        __builtin_prefetch(codes + 6 * block_bytes + line);
      }
    }
    code_block w;
    if constexpr (Kind == weight_kind::q8_0) {
      w.load_u8(codes);
    } else {
      w.load_u4(codes);
    }
    const vf scale = load_f16(d);
    const vf minimum = has_min ? load_f16(d + 16) : zero();
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) {
      const std::int32_t offset = has_min ? 0 : -zero_point * s->code_sum[r];
      const vf dot =
          Kind == weight_kind::q8_0 ? w.dot_u8(a + r * 32, offset) : w.dot_u4(a + r * 32, offset);
      acc[r] = fma(dot, mul(scale, set1(s->scale[r])), acc[r]);
      if constexpr (has_min) acc[r] = fma(minimum, set1(s->sum[r]), acc[r]);
    }
    codes += block_bytes;
    d += has_min ? 32 : 16;
    a += tile_rows * block_cols;
    ++s;
  }
}

template <weight_kind Kind, int Rows>
TROUPE_INLINE void dot_float(const packed_matrix& m, const std::byte* panel, const activation& in,
                             std::uint32_t tile, vf* acc) {
  const float* a = in.values + std::size_t{tile} * tile_rows * in.stride;
  const std::size_t columns = std::size_t{m.blocks} * block_cols;
  for (std::size_t c = 0; c < columns; ++c) {
    vf w;
    if constexpr (Kind == weight_kind::f32) {
      w = load(reinterpret_cast<const float*>(panel) + c * panel_rows);
    } else {
      w = load_f16(reinterpret_cast<const std::uint16_t*>(panel) + c * panel_rows);
    }
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) acc[r] = fma(w, set1(a[r * in.stride + c]), acc[r]);
  }
}

/// acc[r] = the 16 outputs of `panel` for row r of `tile`.
template <weight_kind Kind, int Rows>
TROUPE_INLINE void tile_dot(const packed_matrix& m, std::uint32_t panel, const activation& in,
                            std::uint32_t tile, vf* acc) {
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r) acc[r] = zero();
  const std::byte* data = m.data + panel * m.panel_bytes;
  if constexpr (is_quantized(Kind)) {
    dot_quantized<Kind, Rows>(m, data, in, tile, acc);
  } else {
    dot_float<Kind, Rows>(m, data, in, tile, acc);
  }
}

/// Writes tile_dot's result to out[r * stride + 0..15], adding `add` (same layout) when not null.
template <weight_kind Kind, int Rows>
void tile_store(const packed_matrix& m, std::uint32_t panel, const activation& in,
                std::uint32_t tile, float* out, std::size_t stride, const float* plus) {
  vf acc[Rows];
  tile_dot<Kind, Rows>(m, panel, in, tile, acc);
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r) {
    if (plus) acc[r] = add(acc[r], load(plus + r * stride));
    store(out + r * stride, acc[r]);
  }
}

}  // namespace troupe::gpu::TROUPE_ISA_NS
