// What a tile of attention has merged so far, and how one more split is merged into it: one place
// for the tile that goes over its whole context and for the one whose splits other threads have
// summed, so that both do the same operations. Included by units of an instruction set alone.
#pragma once
#include "gpu/cpu/kernels/isa/isa_kernels.hpp"
#include "gpu/cpu/kernels/isa/spread_head.hpp"

namespace troupe::gpu::TROUPE_ISA_NS {

inline constexpr int pass_queries = accumulators < int{query_pass} ? accumulators : int{query_pass};

struct merge_state {
  alignas(64) float sum[query_tile][head_dim_max];  // merged so far
  float max[query_tile], total[query_tile];
  float split_max[16], split_total[16];  // of one pass in one split
  float keep[16], take[16];
  std::uint32_t valid[pass_queries];  // tokens of this split the query sees
};

/// How many tokens of the split that begins at `token` a query of the tile sees.
TROUPE_INLINE std::uint32_t tokens_seen(const attention_params& p, std::uint32_t query,
                                        std::uint32_t token) {
  const std::uint32_t seen = p.position + query / p.heads + 1;
  return seen <= token ? 0 : seen - token < split_tokens ? seen - token : split_tokens;
}

TROUPE_INLINE void begin_merge(const attention_params& p, merge_state& s) {
  for (std::uint32_t i = 0; i < p.rows * p.heads; ++i) {
    for (std::uint32_t d = 0; d < p.head_dim; d += 16) store(s.sum[i] + d, zero());
    s.max[i] = -__builtin_inff();
    s.total[i] = 0.0f;
  }
}

/// One split of `count` queries, the first of them `first`; query j's sum is at part + j * stride.
[[maybe_unused]] static void merge_split(const attention_params& p, merge_state& s,
                                         std::uint32_t first, std::uint32_t count,
                                         const float* part, std::size_t stride) {
  float before[16], top[16];
  for (std::uint32_t j = 0; j < 16; ++j) {
    before[j] = j < count ? s.max[first + j] : 0.0f;
    if (j >= count) s.split_max[j] = 0.0f;
    top[j] = before[j] > s.split_max[j] ? before[j] : s.split_max[j];
  }
  store(s.keep, exp_below(sub(load(before), load(top))));
  store(s.take, exp_below(sub(load(s.split_max), load(top))));
  for (std::uint32_t j = 0; j < count; ++j, part += stride) {
    if (s.valid[j] == 0) continue;
    const vf keep = set1(s.keep[j]), take = set1(s.take[j]);
    float* sum = s.sum[first + j];
    for (std::uint32_t d = 0; d < p.head_dim; d += 16) {
      store(sum + d, fma(load(part + d), take, mul(load(sum + d), keep)));
    }
    const float kept_total = s.total[first + j] * s.keep[j];
    s.total[first + j] = kept_total + s.split_total[j] * s.take[j];
    s.max[first + j] = top[j];
  }
}

TROUPE_INLINE void write_out(const attention_params& p, const merge_state& s) {
  for (std::uint32_t i = 0; i < p.rows * p.heads; ++i) {
    float* out = p.out + (p.row + i / p.heads) * p.out_stride +
                 std::size_t{p.head + i % p.heads} * p.head_dim;
    for (std::uint32_t d = 0; d < p.head_dim; d += 16) {
      store(out + d, div(load(s.sum[i] + d), set1(s.total[i])));
    }
    if (p.kv.value.has_codes()) spread_head(out, p.head_dim);  // as it was
  }
}

}  // namespace troupe::gpu::TROUPE_ISA_NS
