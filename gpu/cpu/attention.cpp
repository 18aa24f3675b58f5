// gpu/kernels/attention.hpp, compiled once per instruction set. Few queries (decode) take several
// token groups and several parts of the head at once to hide latency; many queries (prefill) share
// each converted K and V vector instead. The sums of one query are the same operations in the same
// order in both shapes.
#include "gpu/cpu/isa_kernels.hpp"

namespace troupe::gpu::TROUPE_ISA_NS {

namespace {

template <int N>
struct tile_state {
  alignas(64) float q[head_dim_max * N];      // [dim][query], scaled
  alignas(64) float weight[N][split_tokens];  // scores, then exp
  alignas(64) float part[N][head_dim_max];    // sum of one split
  alignas(64) float sum[N][head_dim_max];     // merged so far
  float split_max[N], split_total[N], max[N], total[N];
  std::uint32_t valid[N];  // tokens of this split the query sees
};

TROUPE_INLINE const std::uint16_t* head_of(const attention_params& p, std::uint32_t token) {
  return p.kv.base + p.blocks[token / p.kv.block_size] * p.kv.block_stride +
         p.kv_head * p.kv.head_stride;
}

/// Scores of G groups of 16 tokens from `token` on.
template <int N, int G>
TROUPE_INLINE void score_groups(const attention_params& p, tile_state<N>& s, std::uint32_t split,
                                std::uint32_t token) {
  const std::uint16_t* k[G];
  vf acc[G][N];
#pragma GCC unroll 4
  for (int g = 0; g < G; ++g) {
    const std::uint32_t at = token + 16 * g;
    k[g] = head_of(p, at) + at % p.kv.block_size;
#pragma GCC unroll 12
    for (int j = 0; j < N; ++j) acc[g][j] = zero();
  }
  for (std::uint32_t d = 0; d < p.head_dim; ++d) {
#pragma GCC unroll 4
    for (int g = 0; g < G; ++g) {
      const vf key = load_f16(k[g] + std::size_t{d} * p.kv.block_size);
#pragma GCC unroll 12
      for (int j = 0; j < N; ++j) acc[g][j] = fma(set1(s.q[d * N + j]), key, acc[g][j]);
    }
  }
#pragma GCC unroll 4
  for (int g = 0; g < G; ++g) {
#pragma GCC unroll 12
    for (int j = 0; j < N; ++j) store(s.weight[j] + (token - split) + 16 * g, acc[g][j]);
  }
}

/// Scores of one query to weights, with their maximum and sum.
template <int N>
TROUPE_INLINE void soften(tile_state<N>& s, int j) {
  const std::uint32_t valid = s.valid[j];
  const vf hidden = set1(-__builtin_inff());
  vf largest = hidden;
  for (std::uint32_t t = 0; t < valid; t += 16) {
    const vm seen = less(iota(), set1(static_cast<float>(valid - t)));
    const vf x = select(seen, load(s.weight[j] + t), hidden);
    store(s.weight[j] + t, x);
    largest = max(largest, x);
  }
  s.split_max[j] = reduce_max(largest);
  const vf top = set1(s.split_max[j]);
  vf total = zero();
  for (std::uint32_t t = 0; t < valid; t += 16) {
    const vm seen = less(iota(), set1(static_cast<float>(valid - t)));
    const vf e = select(seen, exp(sub(load(s.weight[j] + t), top)), zero());
    store(s.weight[j] + t, e);
    total = add(total, e);
  }
  s.split_total[j] = reduce_add(total);
}

/// part[j][dim .. dim + 16 D) = sum of weight * V in token order, over the tokens each query sees.
template <int N, int D>
TROUPE_INLINE void weigh_values(const attention_params& p, tile_state<N>& s, std::uint32_t split,
                                std::uint32_t count, std::uint32_t dim) {
  std::uint32_t common = s.valid[0];
  for (int j = 1; j < N; ++j) common = common < s.valid[j] ? common : s.valid[j];
  vf acc[N][D];
#pragma GCC unroll 12
  for (int j = 0; j < N; ++j) {
#pragma GCC unroll 4
    for (int d = 0; d < D; ++d) acc[j][d] = zero();
  }
  std::uint32_t t = 0;
  while (t < common) {
    const std::uint32_t room = p.kv.block_size - t % p.kv.block_size;
    const std::uint32_t end = common - t < room ? common : t + room;
    const std::uint16_t* v = head_of(p, split + t) + p.kv.value_offset +
                             std::size_t{t % p.kv.block_size} * p.head_dim + dim;
    for (; t < end; ++t, v += p.head_dim) {
      vf value[D];
#pragma GCC unroll 4
      for (int d = 0; d < D; ++d) value[d] = load_f16(v + 16 * d);
#pragma GCC unroll 12
      for (int j = 0; j < N; ++j) {
        const vf w = set1(s.weight[j][t]);
#pragma GCC unroll 4
        for (int d = 0; d < D; ++d) acc[j][d] = fma(w, value[d], acc[j][d]);
      }
    }
  }
#pragma GCC unroll 12
  for (int j = 0; j < N; ++j) {
#pragma GCC unroll 4
    for (int d = 0; d < D; ++d) store(s.part[j] + dim + 16 * d, acc[j][d]);
  }
  for (; t < count; ++t) {  // the causal edge: some queries of the tile do not see this token
    const std::uint16_t* v = head_of(p, split + t) + p.kv.value_offset +
                             std::size_t{t % p.kv.block_size} * p.head_dim + dim;
    for (int j = 0; j < N; ++j) {
      if (t >= s.valid[j]) continue;
      for (int d = 0; d < D; ++d) {
        float* part = s.part[j] + dim + 16 * d;
        store(part, fma(set1(s.weight[j][t]), load_f16(v + 16 * d), load(part)));
      }
    }
  }
}

template <int N>
TROUPE_INLINE void merge_split(const attention_params& p, tile_state<N>& s, int j) {
  const float top = s.max[j] > s.split_max[j] ? s.max[j] : s.split_max[j];
  const float keep = exp_one(s.max[j] - top);
  const float take = exp_one(s.split_max[j] - top);
  for (std::uint32_t d = 0; d < p.head_dim; d += 16) {
    const vf kept = mul(load(s.sum[j] + d), set1(keep));
    store(s.sum[j] + d, fma(load(s.part[j] + d), set1(take), kept));
  }
  const float kept_total = s.total[j] * keep;
  s.total[j] = kept_total + s.split_total[j] * take;
  s.max[j] = top;
}

template <int N>
TROUPE_INLINE void run_split(const attention_params& p, tile_state<N>& s, std::uint32_t split,
                             std::uint32_t count) {
  constexpr int groups = N <= 3 ? 4 : N <= 6 ? 2 : 1;
  for (int j = 0; j < N; ++j) {
    const std::uint32_t seen = p.position + static_cast<std::uint32_t>(j) / p.heads + 1;
    s.valid[j] = seen <= split ? 0 : seen - split < split_tokens ? seen - split : split_tokens;
  }
  std::uint32_t t = 0;
  for (; t + 16 * (groups - 1) < count; t += 16 * groups)
    score_groups<N, groups>(p, s, split, split + t);
  for (; t < count; t += 16) score_groups<N, 1>(p, s, split, split + t);
  for (int j = 0; j < N; ++j) {
    if (s.valid[j]) soften<N>(s, j);
  }
  std::uint32_t d = 0;
  for (; d + 16 * groups <= p.head_dim; d += 16 * groups)
    weigh_values<N, groups>(p, s, split, count, d);
  for (; d < p.head_dim; d += 16) weigh_values<N, 1>(p, s, split, count, d);
  for (int j = 0; j < N; ++j) {
    if (s.valid[j]) merge_split<N>(p, s, j);
  }
}

template <int N>
void attend(const attention_params& p) {
  tile_state<N> s;
  for (int j = 0; j < N; ++j) {
    const std::uint32_t row = p.row + static_cast<std::uint32_t>(j) / p.heads;
    const std::uint32_t head = p.head + static_cast<std::uint32_t>(j) % p.heads;
    const float* q = p.q + row * p.q_stride + std::size_t{head} * p.head_dim;
    for (std::uint32_t d = 0; d < p.head_dim; ++d) {
      s.q[d * N + j] = q[d] * p.scale;
      s.sum[j][d] = 0.0f;
    }
    s.max[j] = -__builtin_inff();
    s.total[j] = 0.0f;
  }
  const std::uint32_t context = p.position + p.rows;
  for (std::uint32_t split = 0; split < context; split += split_tokens) {
    run_split<N>(p, s, split, context - split < split_tokens ? context - split : split_tokens);
  }
  for (int j = 0; j < N; ++j) {
    const std::uint32_t row = p.row + static_cast<std::uint32_t>(j) / p.heads;
    const std::uint32_t head = p.head + static_cast<std::uint32_t>(j) % p.heads;
    float* out = p.out + row * p.out_stride + std::size_t{head} * p.head_dim;
    for (std::uint32_t d = 0; d < p.head_dim; d += 16) {
      store(out + d, div(load(s.sum[j] + d), set1(s.total[j])));
    }
  }
}

}  // namespace

void attention(const attention_params& p) {
  using function = void (*)(const attention_params&);
  static constexpr function table[query_tile] = {attend<1>, attend<2>,  attend<3>,  attend<4>,
                                                 attend<5>, attend<6>,  attend<7>,  attend<8>,
                                                 attend<9>, attend<10>, attend<11>, attend<12>};
  table[p.rows * p.heads - 1](p);
}

}  // namespace troupe::gpu::TROUPE_ISA_NS
