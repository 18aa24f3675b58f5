// The inner loop of every matmul: one weight panel times one tile of 1 to 8 activation rows, sums
// in registers. The operations of a row do not depend on how many rows share the tile: that is what
// keeps results independent of batching. Included by units of an instruction set alone.
#pragma once
#include "gpu/cpu/kernels/isa/simd.hpp"
#include "gpu/cpu/kernels/tile.hpp"

namespace troupe::gpu::TROUPE_ISA_NS {

/// The 16 numbers number `index` of a block's scales.
template <weight_kind Kind>
TROUPE_INLINE vf load_scales(const std::byte* scales, std::size_t index) {
  if constexpr (scales_of(Kind).wide) {
    return load(reinterpret_cast<const float*>(scales) + index * panel_rows);
  } else {
    return load_f16(reinterpret_cast<const std::uint16_t*>(scales) + index * panel_rows);
  }
}

/// What is multiplied soon comes to the second-level cache far ahead, and near its turn to the
/// first: the first has too few misses under way at a time to be read into from memory (Zen 4: a
/// third of the rate), and no room for both.
TROUPE_INLINE void fetch_ahead(const void* p) {
  const char* at = static_cast<const char*>(p);
  __builtin_prefetch(at + 24 * 1024, 0, 2);
  __builtin_prefetch(at + 512);
}

template <weight_kind Kind, int Rows>
TROUPE_INLINE void dot_quantized(const packed_matrix& m, const std::byte* panel,
                                 const activation& in, std::uint32_t tile, bool from_memory,
                                 vf* acc) {
  constexpr panel_scales form = scales_of(Kind);
  constexpr std::int32_t zero_point = !form.four_bit ? 128 : form.minimum ? 0 : 8;
  const std::byte* scales = panel;
  const std::uint8_t* codes = reinterpret_cast<const std::uint8_t*>(panel + m.codes_offset);
  const std::int8_t* a = in.codes + std::size_t{tile} * in.blocks * tile_rows * block_cols;
  const tile_scales* s = in.scales + std::size_t{tile} * in.blocks;
  for (std::uint32_t b = 0; b < m.blocks; ++b) {
    if (from_memory) {
      fetch_ahead(scales);
      for (std::size_t line = 0; line < form.code_bytes(); line += 64) fetch_ahead(codes + line);
    }
    code_block w;
    if constexpr (form.four_bit) {
      w.load_u4(codes);
    } else {
      w.load_u8(codes);
    }
    const vf scale = load_scales<Kind>(scales, 0);
    const vf second = form.minimum || form.halves ? load_scales<Kind>(scales, 1) : zero();
    std::int32_t offset[Rows];
    vf dot[Rows];
    if constexpr (form.halves) {
#pragma GCC unroll 8
      for (int r = 0; r < Rows; ++r) offset[r] = -zero_point * s->low_sum[r];
      w.template dots<false, 0, 4, Rows>(a, offset, dot);
#pragma GCC unroll 8
      for (int r = 0; r < Rows; ++r) {
        acc[r] = fma(dot[r], mul(scale, set1(s->scale[r])), acc[r]);
        offset[r] = -zero_point * (s->code_sum[r] - s->low_sum[r]);
      }
      w.template dots<false, 4, 8, Rows>(a, offset, dot);
#pragma GCC unroll 8
      for (int r = 0; r < Rows; ++r) acc[r] = fma(dot[r], mul(second, set1(s->scale[r])), acc[r]);
    } else {
#pragma GCC unroll 8
      for (int r = 0; r < Rows; ++r) offset[r] = -zero_point * s->code_sum[r];
      w.template dots<form.four_bit, 0, 8, Rows>(a, offset, dot);
#pragma GCC unroll 8
      for (int r = 0; r < Rows; ++r) {
        acc[r] = fma(dot[r], mul(scale, set1(s->scale[r])), acc[r]);
        if constexpr (form.minimum) acc[r] = fma(second, set1(s->sum[r]), acc[r]);
      }
    }
    codes += form.code_bytes();
    scales += form.scale_bytes();
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
    } else if constexpr (Kind == weight_kind::f16) {
      w = load_f16(reinterpret_cast<const std::uint16_t*>(panel) + c * panel_rows);
    } else {
      w = load_bf16(reinterpret_cast<const std::uint16_t*>(panel) + c * panel_rows);
    }
#pragma GCC unroll 8
    for (int r = 0; r < Rows; ++r) acc[r] = fma(w, set1(a[r * in.stride + c]), acc[r]);
  }
}

/// acc[r] = the 16 outputs of `panel` for row r of `tile`. `from_memory`: no tile
/// before had this panel, so it is not in the cache, nor are those behind it.
template <weight_kind Kind, int Rows>
TROUPE_INLINE void tile_dot(const packed_matrix& m, std::uint32_t panel, const activation& in,
                            std::uint32_t tile, bool from_memory, vf* acc) {
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r) acc[r] = zero();
  const std::byte* data = m.data + panel * m.panel_bytes;
  if constexpr (is_quantized(Kind)) {
    dot_quantized<Kind, Rows>(m, data, in, tile, from_memory, acc);
  } else {
    dot_float<Kind, Rows>(m, data, in, tile, acc);
  }
}

/// Writes tile_dot's result to out[r * stride + 0..15], adding `add` (same layout) when not null.
template <weight_kind Kind, int Rows>
void tile_store(const packed_matrix& m, std::uint32_t panel, const activation& in,
                std::uint32_t tile, bool from_memory, float* out, std::size_t stride,
                const float* plus) {
  vf acc[Rows];
  tile_dot<Kind, Rows>(m, panel, in, tile, from_memory, acc);
#pragma GCC unroll 8
  for (int r = 0; r < Rows; ++r) {
    if (plus) acc[r] = add(acc[r], load(plus + r * stride));
    store(out + r * stride, acc[r]);
  }
}

}  // namespace troupe::gpu::TROUPE_ISA_NS
