// gpu/cpu/kernels/gate_up.hpp, compiled once per instruction set.
#include "gpu/cpu/kernels/isa/isa_kernels.hpp"
#include "gpu/cpu/kernels/isa/quantize_block.hpp"

namespace troupe::gpu::TROUPE_ISA_NS {

/// e^-x as a power of two: the rounding of x * log2(e) costs a relative 2^-24 |x|, nothing beside
/// the eight bits that follow. A NaN stays one.
TROUPE_INLINE vf silu(vf x) {
  const vf power = min(set1(127.0f), mul(x, set1(-1.44269504f)));
  return div(x, add(set1(1.0f), exp2(power)));
}

/// The 32 products of one block for a tile of rows; a second panel beyond the matrix is zero.
static void block_products(const packed_matrix& m, std::uint32_t block, const activation& in,
                           std::uint32_t tile, bool from_memory, tile_function function,
                           float (*out)[block_cols]) {
  for (std::uint32_t half = 0; half < 2; ++half) {
    const std::uint32_t panel = 2 * block + half;
    if (panel < m.panels) {
      function(m, panel, in, tile, from_memory, out[0] + half * panel_rows, block_cols, nullptr);
      continue;
    }
    for (std::uint32_t r = 0; r < tile_rows; ++r) store(out[r] + half * panel_rows, zero());
  }
}

void gate_up(const gate_up_params& p) {
  alignas(64) float gate[tile_rows][block_cols];
  alignas(64) float up[tile_rows][block_cols];
  for (std::uint32_t block = p.block_begin; block < p.block_end; ++block) {
    for (std::uint32_t row = p.row_begin; row < p.row_end; row += tile_rows) {
      const std::uint32_t rows = p.row_end - row < tile_rows ? p.row_end - row : tile_rows;
      const std::uint32_t tile = row / tile_rows;
      const bool first = row == p.row_begin;
      block_products(*p.gate, block, p.in, tile, first, tile_for(p.gate->kind, rows), gate);
      block_products(*p.up, block, p.in, tile, first, tile_for(p.up->kind, rows), up);
      for (std::uint32_t r = 0; r < rows; ++r) {
        put_block(mul(silu(load(gate[r])), load(up[r])),
                  mul(silu(load(gate[r] + 16)), load(up[r] + 16)), p.out, row + r, block);
      }
    }
  }
}

}  // namespace troupe::gpu::TROUPE_ISA_NS
