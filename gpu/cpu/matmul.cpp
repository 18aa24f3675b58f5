// gpu/kernels/matmul.hpp, compiled once per instruction set. A panel stays in the first-level cache
// while the row tiles stream past it.
#include "gpu/cpu/isa_kernels.hpp"
#include "gpu/cpu/tile_dot.hpp"

namespace troupe::gpu::TROUPE_ISA_NS {

void matmul(const matmul_params& p) {
  const packed_matrix& m = *p.weights;
  const tile_function whole = tile_for(m.kind, tile_rows);
  const std::uint32_t rest = (p.row_end - p.row_begin) % tile_rows;
  const tile_function last = rest ? tile_for(m.kind, rest) : whole;
  for (std::uint32_t panel = p.panel_begin; panel < p.panel_end; ++panel) {
    for (std::uint32_t row = p.row_begin; row < p.row_end; row += tile_rows) {
      const std::size_t at = row * p.out_stride + std::size_t{panel} * panel_rows;
      const tile_function tile = p.row_end - row >= tile_rows ? whole : last;
      tile(m, panel, p.in, row / tile_rows, p.out + at, p.out_stride, p.add ? p.add + at : nullptr);
    }
  }
}

}  // namespace troupe::gpu::TROUPE_ISA_NS
