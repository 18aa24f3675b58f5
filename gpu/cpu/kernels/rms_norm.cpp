// gpu/cpu/kernels/rms_norm.hpp, compiled once per instruction set.
#include "gpu/cpu/kernels/isa/isa_kernels.hpp"
#include "gpu/cpu/kernels/isa/quantize_block.hpp"

namespace troupe::gpu::TROUPE_ISA_NS {

void rms_norm(const rms_norm_params& p) {
  for (std::uint32_t row = p.row_begin; row < p.row_end; ++row) {
    const float* x = p.in + (p.source_rows ? p.source_rows[row] : row) * p.in_stride;
    vf squares = zero();
    for (std::uint32_t c = 0; c < p.out.blocks * block_cols; c += 16) {
      const vf v = load(x + c);
      squares = fma(v, v, squares);
    }
    const float mean = reduce_add(squares) / static_cast<float>(p.width);
    const vf inverse = set1(1.0f / __builtin_sqrtf(mean + p.eps));
    for (std::uint32_t b = 0; b < p.out.blocks; ++b) {
      const float* w = p.weight + b * block_cols;
      const vf low = mul(mul(load(x + b * 32), inverse), load(w));
      const vf high = mul(mul(load(x + b * 32 + 16), inverse), load(w + 16));
      put_block(low, high, p.out, row, b);
    }
  }
}

}  // namespace troupe::gpu::TROUPE_ISA_NS
