// One block of 32 activations of one row to codes and scales (contract:
// gpu/cpu/kernels/quantize.hpp). Included by units of an instruction set alone.
#pragma once
#include "gpu/cpu/kernels/isa/simd.hpp"
#include "gpu/cpu/kernels/tile.hpp"

namespace troupe::gpu::TROUPE_ISA_NS {

struct block_rest {
  vf low, high;
};

/// `codes` and `scales` are the block's for row r of its tile. Returns what they leave of the
/// values.
TROUPE_INLINE block_rest quantize_block(vf low, vf high, std::int8_t* codes, tile_scales& scales,
                                        std::uint32_t r) {
  const float largest = reduce_max(max(abs(low), abs(high)));
  const bool broken = any_nan(low) || any_nan(high) || !(largest < __builtin_inff());
  if (broken || largest < 1e-30f) {
    store_codes(codes, zero());
    store_codes(codes + 16, zero());
    scales.scale[r] = scales.sum[r] = broken ? __builtin_nanf("") : 0.0f;
    scales.code_sum[r] = scales.low_sum[r] = 0;
    return {low, high};
  }
  const float scale = largest / 127.0f;
  const vf inverse = set1(127.0f / largest);
  const vf top = set1(127.0f);
  const vf bottom = set1(-127.0f);
  const vf a = max(bottom, min(top, round(mul(low, inverse))));
  const vf b = max(bottom, min(top, round(mul(high, inverse))));
  const std::int32_t low_sum = store_codes(codes, a);
  const std::int32_t sum = low_sum + store_codes(codes + 16, b);
  scales.scale[r] = scale;
  scales.sum[r] = scale * static_cast<float>(sum);
  scales.code_sum[r] = static_cast<std::int16_t>(sum);
  scales.low_sum[r] = static_cast<std::int16_t>(low_sum);
  return {fma(a, set1(-scale), low), fma(b, set1(-scale), high)};
}

/// Both forms of a block, as far as `out` wants them.
TROUPE_INLINE void put_block(vf low, vf high, const activation& out, std::uint32_t row,
                             std::uint32_t block) {
  if (out.values) {
    float* values = out.values + row * out.stride + std::size_t{block} * block_cols;
    store(values, low);
    store(values + 16, high);
  }
  if (!out.codes) return;
  const std::size_t index = std::size_t{row / tile_rows} * out.blocks + block;
  const std::uint32_t r = row % tile_rows;
  const std::size_t at = (index * tile_rows + r) * block_cols;
  const block_rest rest = quantize_block(low, high, out.codes + at, out.scales[index], r);
  if (out.rest_codes) {
    quantize_block(rest.low, rest.high, out.rest_codes + at, out.rest_scales[index], r);
  }
}

}  // namespace troupe::gpu::TROUPE_ISA_NS
