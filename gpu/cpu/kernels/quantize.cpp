// gpu/cpu/kernels/quantize.hpp, compiled once per instruction set.
#include "gpu/cpu/kernels/isa/isa_kernels.hpp"
#include "gpu/cpu/kernels/isa/quantize_block.hpp"

namespace troupe::gpu::TROUPE_ISA_NS {

void quantize(const quantize_params& p) {
  for (std::uint32_t row = p.row_begin; row < p.row_end; ++row) {
    const float* x = p.in + row * p.in_stride;
    for (std::uint32_t b = 0; b < p.out.blocks; ++b) {
      put_block(load(x + b * 32), load(x + b * 32 + 16), p.out, row, b);
    }
  }
}

}  // namespace troupe::gpu::TROUPE_ISA_NS
