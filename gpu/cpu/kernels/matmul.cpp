// gpu/cpu/kernels/matmul.hpp, compiled once per instruction set. A panel stays in the first-level
// cache while the row tiles stream past it.
#include "gpu/cpu/kernels/isa/isa_kernels.hpp"
#include "gpu/cpu/kernels/isa/tile_dot.hpp"

namespace troupe::gpu::TROUPE_ISA_NS {

template <weight_kind Kind>
static tile_function tile_for_rows(std::uint32_t rows) {
  static constexpr tile_function table[] = {
      tile_store<Kind, 1>, tile_store<Kind, 2>, tile_store<Kind, 3>, tile_store<Kind, 4>,
      tile_store<Kind, 5>, tile_store<Kind, 6>, tile_store<Kind, 7>, tile_store<Kind, 8>};
  return table[rows - 1];
}

tile_function tile_for(weight_kind kind, std::uint32_t rows) {
  switch (kind) {
    case weight_kind::f32:
      return tile_for_rows<weight_kind::f32>(rows);
    case weight_kind::f16:
      return tile_for_rows<weight_kind::f16>(rows);
    case weight_kind::bf16:
      return tile_for_rows<weight_kind::bf16>(rows);
    case weight_kind::q4_0:
      return tile_for_rows<weight_kind::q4_0>(rows);
    case weight_kind::q4_1:
      return tile_for_rows<weight_kind::q4_1>(rows);
    case weight_kind::q4_k:
      return tile_for_rows<weight_kind::q4_k>(rows);
    case weight_kind::q5_k:
      return tile_for_rows<weight_kind::q5_k>(rows);
    case weight_kind::q6_k:
      return tile_for_rows<weight_kind::q6_k>(rows);
    case weight_kind::q8_0:
      break;
  }
  return tile_for_rows<weight_kind::q8_0>(rows);
}

void matmul(const matmul_params& p) {
  const packed_matrix& m = *p.weights;
  const tile_function whole = tile_for(m.kind, tile_rows);
  const std::uint32_t rest = (p.row_end - p.row_begin) % tile_rows;
  const tile_function last = rest ? tile_for(m.kind, rest) : whole;
  for (std::uint32_t panel = p.panel_begin; panel < p.panel_end; ++panel) {
    for (std::uint32_t row = p.row_begin; row < p.row_end; row += tile_rows) {
      const std::size_t at = row * p.out_stride + std::size_t{panel} * panel_rows;
      const tile_function tile = p.row_end - row >= tile_rows ? whole : last;
      tile(m, panel, p.in, row / tile_rows, row == p.row_begin, p.out + at, p.out_stride,
           p.add ? p.add + at : nullptr);
    }
  }
}

}  // namespace troupe::gpu::TROUPE_ISA_NS
