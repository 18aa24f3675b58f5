// gpu/cpu/kernels/rope.hpp, compiled once per instruction set.
#include "gpu/cpu/kernels/attention.hpp"
#include "gpu/cpu/kernels/isa/isa_kernels.hpp"

namespace troupe::gpu::TROUPE_ISA_NS {

TROUPE_INLINE vf rotate(const float* x, const float* cosines, const float* sines) {
  const vf v = load(x);
  return fma(swap_pairs(v), load(sines), mul(v, load(cosines)));
}

/// K of one head, transposed: dim d of token t at [d * block_size + t].
static void store_key(const rope_params& p, const float* k, const float* c, const float* s,
                      std::uint16_t* at) {
  std::uint16_t half[head_dim_max];
  for (std::uint32_t d = 0; d < p.head_dim; d += 16)
    store_f16(half + d, rotate(k + d, c + d, s + d));
  for (std::uint32_t d = 0; d < p.head_dim; ++d) at[std::size_t{d} * p.kv.block_size] = half[d];
}

void rope(const rope_params& p) {
  for (std::uint32_t row = p.row_begin; row < p.row_end; ++row) {
    const std::uint32_t position = p.positions[row];
    const float* c = p.cosines + std::size_t{position} * p.head_dim;
    const float* s = p.sines + std::size_t{position} * p.head_dim;
    float* q = p.q + row * p.q_stride;
    for (std::uint32_t h = 0; h < p.heads; ++h, q += p.head_dim) {
      for (std::uint32_t d = 0; d < p.head_dim; d += 16) {
        store(q + d, rotate(q + d, c + d, s + d));
      }
    }
    const std::uint32_t token = position % p.kv.block_size;
    for (std::uint32_t h = 0; h < p.kv_heads; ++h) {
      std::uint16_t* head = p.kv.base + p.blocks[row] * p.kv.block_stride + h * p.kv.head_stride;
      const std::size_t at = row * p.kv_stride + std::size_t{h} * p.head_dim;
      store_key(p, p.k + at, c, s, head + token);
      std::uint16_t* value = head + p.kv.value_offset + std::size_t{token} * p.head_dim;
      for (std::uint32_t d = 0; d < p.head_dim; d += 16) store_f16(value + d, load(p.v + at + d));
    }
  }
}

}  // namespace troupe::gpu::TROUPE_ISA_NS
