// gpu/cpu/kernels/rope.hpp, compiled once per instruction set.
#include "gpu/cpu/kernels/attention.hpp"
#include "gpu/cpu/kernels/isa/isa_kernels.hpp"
#include "gpu/cpu/kernels/isa/store_kv.hpp"

namespace troupe::gpu::TROUPE_ISA_NS {

TROUPE_INLINE vf rotate(const float* x, const float* cosines, const float* sines) {
  const vf v = load(x);
  return fma(swap_pairs(v), load(sines), mul(v, load(cosines)));
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
    const head_place place{p.head_dim, p.kv.block_size, token};
    for (std::uint32_t h = 0; h < p.kv_heads; ++h) {
      const std::size_t at = row * p.kv_stride + std::size_t{h} * p.head_dim;
      alignas(64) float key[head_dim_max];
      for (std::uint32_t d = 0; d < p.head_dim; d += 16) {
        store(key + d, rotate(p.k + at + d, c + d, s + d));
      }
      store_key(p.kv.key, place, key, p.kv.key_head(p.blocks[row], h));
      store_value(p.kv.value, place, p.v + at, p.kv.value_head(p.blocks[row], h));
    }
  }
}

}  // namespace troupe::gpu::TROUPE_ISA_NS
