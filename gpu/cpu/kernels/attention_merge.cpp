// gpu/cpu/kernels/attention.hpp, compiled once per instruction set: what other threads have summed
// of a tile's splits, merged as attention.cpp does it on its way.
#include "gpu/cpu/kernels/attention_merge.hpp"

namespace troupe::gpu::TROUPE_ISA_NS {

void attention_merge(const attention_params& p, const float* sums) {
  merge_state s;
  begin_merge(p, s);
  const std::uint32_t queries = p.rows * p.heads, splits = splits_of(p);
  const std::size_t stride = split_sum_floats(p.head_dim);
  for (std::uint32_t split = 0; split < splits; ++split) {
    for (std::uint32_t first = 0; first < queries; first += pass_queries) {
      const std::uint32_t left = queries - first;
      const std::uint32_t count = left < pass_queries ? left : pass_queries;
      const float* part = sums + split_sums_at(p, split, first);
      for (std::uint32_t j = 0; j < count; ++j) {
        s.valid[j] = tokens_seen(p, first + j, split * split_tokens);
        const float* numbers = part + j * stride + p.head_dim;
        s.split_max[j] = s.valid[j] ? numbers[0] : 0.0f;
        s.split_total[j] = s.valid[j] ? numbers[1] : 0.0f;
      }
      merge_split(p, s, first, count, part, stride);
    }
  }
  write_out(p, s);
}

}  // namespace troupe::gpu::TROUPE_ISA_NS
