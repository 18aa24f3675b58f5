// The stages of attention.cpp over K and V that are floats of 16 or 8 bits, where they lie or as
// f32 that were converted once for all passes of a tile. Few queries (decode) take several token
// groups and several parts of the head at once to hide latency. The sums of one query are the same
// operations in the same order in every shape. Scales of 8-bit floats multiply the scores, and the
// weights before they meet V.
#include "gpu/cpu/kernels/isa/attention_state.hpp"

namespace troupe::gpu::TROUPE_ISA_NS {

namespace {

/// Groups of 16 tokens, or parts of 16 dimensions, that N queries take at once.
constexpr int parallel_groups(int queries) {
  const int most = accumulators / queries;
  return most >= 4 ? 4 : most >= 2 ? 2 : 1;
}

/// 16 values of one encoding.
template <kv_encoding Encoding>
struct coded {
  static constexpr bool wide = Encoding == kv_encoding::f16 || Encoding == kv_encoding::bf16;
  static constexpr std::size_t bytes = wide ? 2 : 1;

  TROUPE_INLINE vf load(const std::byte* x) {
    if constexpr (Encoding == kv_encoding::f16) {
      return load_f16(reinterpret_cast<const std::uint16_t*>(x));
    } else if constexpr (Encoding == kv_encoding::bf16) {
      return load_bf16(reinterpret_cast<const std::uint16_t*>(x));
    } else if constexpr (Encoding == kv_encoding::fp8_e4m3) {
      return load_e4m3(reinterpret_cast<const std::uint8_t*>(x));
    } else {
      return load_e5m2(reinterpret_cast<const std::uint8_t*>(x));
    }
  }
};

/// K and V where they lie.
template <kv_encoding Encoding>
struct stored : coded<Encoding> {
  using coded<Encoding>::bytes;
  static constexpr int most_queries = direct_queries(Encoding);
  const attention_params& p;
  const split_range& split;

  stored(const attention_params& params, const tile_state&, const split_range& range)
      : p(params), split(range) {}
  std::size_t key_step() const { return p.kv.block_size * bytes; }
  std::size_t value_step() const { return p.head_dim * bytes; }
  static constexpr std::size_t part_step() { return 16 * bytes; }
  const std::byte* key(std::uint32_t group) const {
    const std::uint32_t at = split.first + 16 * group;
    return key_head(p, at) + at % p.kv.block_size * bytes;
  }
  const std::byte* value(std::uint32_t t) const {
    const std::uint32_t at = split.first + t;
    return value_head(p, at) + at % p.kv.block_size * p.head_dim * bytes;
  }
  const std::byte* ahead(std::uint32_t i) const { return piece(p, split, i + fetch_ahead); }
};

/// K and V of one split as f32.
struct converted {
  static constexpr int most_queries = pass_queries;
  const attention_params& p;
  const tile_state& s;
  const split_range next;

  converted(const attention_params& params, const tile_state& state, const split_range& split)
      : p(params), s(state), next{split.first + split_tokens, split_tokens, split_tokens / 16} {}
  TROUPE_INLINE vf load(const std::byte* x) {
    return TROUPE_ISA_NS::load(reinterpret_cast<const float*>(x));
  }
  static constexpr std::size_t key_step() { return 64; }
  std::size_t value_step() const { return std::size_t{p.head_dim} * 4; }
  static constexpr std::size_t part_step() { return 64; }
  const std::byte* key(std::uint32_t group) const {
    return reinterpret_cast<const std::byte*>(s.key + std::size_t{group} * 16 * p.head_dim);
  }
  const std::byte* value(std::uint32_t t) const {
    return reinterpret_cast<const std::byte*>(s.value + std::size_t{t} * p.head_dim);
  }
  /// The next split, into the cache that holds more, for the conversion to find there.
  const std::byte* ahead(std::uint32_t i) const { return piece(p, next, i); }
};

/// Scores of groups [group, group + G).
template <int N, int G, class Source>
TROUPE_INLINE void score_groups(const attention_params& p, tile_state& s, const float* q,
                                const Source& source, std::uint32_t group) {
  const std::byte *k[G], *ahead[G];
  const std::size_t step = source.key_step();
  const std::size_t ahead_step = group_bytes(p, p.kv.value) / p.head_dim;  // V comes behind K
  vf acc[G][N];
#pragma GCC unroll 4
  for (int g = 0; g < G; ++g) {
    k[g] = source.key(group + g);
    ahead[g] = source.ahead(group + g);
#pragma GCC unroll 12
    for (int j = 0; j < N; ++j) acc[g][j] = zero();
  }
  for (const float* end = q + std::size_t{p.head_dim} * N; q < end; q += N) {
    vf key[G];
#pragma GCC unroll 4
    for (int g = 0; g < G; ++g) {
      key[g] = Source::load(k[g]);
      k[g] += step;
      fetch(ahead[g]);
      ahead[g] += ahead_step;
    }
#pragma GCC unroll 12
    for (int j = 0; j < N; ++j) {
      const vf x = set1(q[j]);
#pragma GCC unroll 4
      for (int g = 0; g < G; ++g) acc[g][j] = fma(x, key[g], acc[g][j]);
    }
  }
#pragma GCC unroll 4
  for (int g = 0; g < G; ++g) {
#pragma GCC unroll 12
    for (int j = 0; j < N; ++j) store(s.weight[j] + 16 * (group + g), acc[g][j]);
  }
}

template <int N, int G, class Source>
TROUPE_INLINE std::uint32_t score_from(const attention_params& p, tile_state& s, const float* q,
                                       const Source& source, std::uint32_t groups,
                                       std::uint32_t group) {
  for (; group + G <= groups; group += G) score_groups<N, G>(p, s, q, source, group);
  return group;
}

template <int N, class Source>
void scores(const attention_params& p, tile_state& s, const split_range& split, std::uint32_t first,
            std::uint32_t) {
  constexpr int G = parallel_groups(N);
  const Source source{p, s, split};
  const float* q = s.q + std::size_t{first} * p.head_dim;
  std::uint32_t group = score_from<N, G>(p, s, q, source, split.groups, 0);
  if constexpr (G > 2) group = score_from<N, 2>(p, s, q, source, split.groups, group);
  score_from<N, 1>(p, s, q, source, split.groups, group);
  if (!p.kv.key.scaled()) return;
  for (std::uint32_t g = 0; g < split.groups; ++g) {
    const vf scales = load(key_scales(p, split.first + 16 * g));
    for (int j = 0; j < N; ++j) {
      float* score = s.weight[j] + 16 * g;
      store(score, mul(load(score), scales));
    }
  }
}

/// Scores of the group at token t to weights, and their sum, for the queries that see any of it.
template <int N>
TROUPE_INLINE void soften(const attention_params& p, tile_state& s, const split_range& split,
                          std::uint32_t t) {
  const bool scaled = p.kv.value.scaled();
  const vf scales = scaled ? load(value_scales(p, split.first + t)) : zero();
#pragma GCC unroll 1
  for (int j = 0; j < N; ++j) {
    if (s.valid[j] <= t) continue;
    if (scaled) {
      soften_query<true>(s, static_cast<std::uint32_t>(j), t, scales);
    } else {
      soften_query<false>(s, static_cast<std::uint32_t>(j), t, scales);
    }
  }
}

/// part[j][dim .. dim + 16 D) = sum of weight * V in token order, over the tokens each query sees.
/// The first part of the head makes the weights as it goes.
template <int N, int D, class Source>
TROUPE_INLINE void weigh_values(const attention_params& p, tile_state& s, const Source& source,
                                const split_range& split, std::uint32_t dim) {
  constexpr std::size_t part_step = Source::part_step();
  const std::size_t step = source.value_step(), at = dim / 16 * part_step;
  const std::size_t ahead_step = group_bytes(p, p.kv.key) / 16;  // K comes behind V
  const std::size_t ahead_at = ahead_step * dim / p.head_dim;
  std::uint32_t common = s.valid[0];  // the first query sees least
  vf acc[N][D];
#pragma GCC unroll 12
  for (int j = 0; j < N; ++j) {
#pragma GCC unroll 4
    for (int d = 0; d < D; ++d) acc[j][d] = zero();
  }
  std::uint32_t t = 0;
  while (t < common) {  // group after group
    if (dim == 0) soften<N>(p, s, split, t);
    const float* weight = &s.weight[0][t];
    const float* const end = weight + (common - t < 16 ? common - t : 16);
    const std::byte* v = source.value(t) + at;
    const std::byte* ahead = source.ahead(split.groups + t / 16) + ahead_at;
    for (; weight < end; ++weight, v += step, ahead += ahead_step) {
      vf value[D];
#pragma GCC unroll 4
      for (int d = 0; d < D; ++d) value[d] = Source::load(v + part_step * d);
#pragma GCC unroll 2
      for (int d = 0; d < D; d += 2) fetch(ahead + 32 * d);
#pragma GCC unroll 12
      for (int j = 0; j < N; ++j) {
        const vf w = set1(weight[j * split_tokens]);
#pragma GCC unroll 4
        for (int d = 0; d < D; ++d) acc[j][d] = fma(w, value[d], acc[j][d]);
      }
    }
    t = common - t < 16 ? common : t + 16;
  }
#pragma GCC unroll 12
  for (int j = 0; j < N; ++j) {
#pragma GCC unroll 4
    for (int d = 0; d < D; ++d) store(s.part[j] + dim + 16 * d, acc[j][d]);
  }
  if (dim == 0) {
    for (std::uint32_t next = (t + 15) / 16 * 16; next < split.count; next += 16)
      soften<N>(p, s, split, next);
  }
  for (; t < split.count; ++t) {  // the causal edge: some queries of the pass do not see this token
    const std::byte* v = source.value(t) + at;
    for (int j = 0; j < N; ++j) {
      if (t >= s.valid[j]) continue;
      for (int d = 0; d < D; ++d) {
        float* part = s.part[j] + dim + 16 * d;
        store(part, fma(set1(s.weight[j][t]), Source::load(v + part_step * d), load(part)));
      }
    }
  }
}

template <int N, class Source>
void values(const attention_params& p, tile_state& s, const split_range& split, std::uint32_t,
            std::uint32_t) {
  constexpr int D = parallel_groups(N);
  const Source source{p, s, split};
  std::uint32_t d = 0;
  for (; d + 16 * D <= p.head_dim; d += 16 * D) weigh_values<N, D>(p, s, source, split, d);
  for (; d < p.head_dim; d += 16) weigh_values<N, 1>(p, s, source, split, d);
}

template <class Source, int N = Source::most_queries>
stage scores_of(std::uint32_t count) {
  if constexpr (N > 1) {
    if (count < N) return scores_of<Source, N - 1>(count);
  }
  return scores<N, Source>;
}

template <class Source, int N = Source::most_queries>
stage values_of(std::uint32_t count) {
  if constexpr (N > 1) {
    if (count < N) return values_of<Source, N - 1>(count);
  }
  return values<N, Source>;
}

template <kv_encoding Encoding>
void convert_keys_of(const attention_params& p, tile_state& s, const split_range& split) {
  const stored<Encoding> from{p, s, split};
  const std::size_t step = from.key_step(), ahead_step = group_bytes(p, p.kv.key) / p.head_dim;
  for (std::uint32_t g = 0; g < split.groups; ++g) {
    const std::byte *k = from.key(g), *ahead = from.ahead(g);
    float* to = s.key + std::size_t{g} * 16 * p.head_dim;
    for (std::uint32_t d = 0; d < p.head_dim; ++d, k += step, ahead += ahead_step, to += 16) {
      store(to, from.load(k));
      fetch(ahead);
    }
  }
}

template <kv_encoding Encoding>
void convert_values_of(const attention_params& p, tile_state& s, const split_range& split) {
  const stored<Encoding> from{p, s, split};
  const std::size_t ahead_step = group_bytes(p, p.kv.value) / p.head_dim;
  for (std::uint32_t g = 0; g < split.groups; ++g) {
    const std::byte *v = from.value(16 * g), *ahead = from.ahead(split.groups + g);
    float* to = s.value + std::size_t{g} * 16 * p.head_dim;
    for (std::uint32_t i = 0; i < p.head_dim;
         ++i, v += from.part_step(), ahead += ahead_step, to += 16) {
      store(to, from.load(v));
      fetch(ahead);
    }
  }
}

}  // namespace

stage float_scores(kv_encoding encoding, bool in_f32, std::uint32_t count) {
  if (in_f32) return scores_of<converted>(count);
  switch (encoding) {
    case kv_encoding::bf16:
      return scores_of<stored<kv_encoding::bf16>>(count);
    case kv_encoding::fp8_e4m3:
      return scores_of<stored<kv_encoding::fp8_e4m3>>(count);
    case kv_encoding::fp8_e5m2:
      return scores_of<stored<kv_encoding::fp8_e5m2>>(count);
    default:
      return scores_of<stored<kv_encoding::f16>>(count);
  }
}

stage float_values(kv_encoding encoding, bool in_f32, std::uint32_t count) {
  if (in_f32) return values_of<converted>(count);
  switch (encoding) {
    case kv_encoding::bf16:
      return values_of<stored<kv_encoding::bf16>>(count);
    case kv_encoding::fp8_e4m3:
      return values_of<stored<kv_encoding::fp8_e4m3>>(count);
    case kv_encoding::fp8_e5m2:
      return values_of<stored<kv_encoding::fp8_e5m2>>(count);
    default:
      return values_of<stored<kv_encoding::f16>>(count);
  }
}

void convert_keys(const attention_params& p, tile_state& s, const split_range& split) {
  switch (p.kv.key.encoding) {
    case kv_encoding::bf16:
      return convert_keys_of<kv_encoding::bf16>(p, s, split);
    case kv_encoding::fp8_e4m3:
      return convert_keys_of<kv_encoding::fp8_e4m3>(p, s, split);
    case kv_encoding::fp8_e5m2:
      return convert_keys_of<kv_encoding::fp8_e5m2>(p, s, split);
    default:
      return convert_keys_of<kv_encoding::f16>(p, s, split);
  }
}

void convert_values(const attention_params& p, tile_state& s, const split_range& split) {
  switch (p.kv.value.encoding) {
    case kv_encoding::bf16:
      return convert_values_of<kv_encoding::bf16>(p, s, split);
    case kv_encoding::fp8_e4m3:
      return convert_values_of<kv_encoding::fp8_e4m3>(p, s, split);
    case kv_encoding::fp8_e5m2:
      return convert_values_of<kv_encoding::fp8_e5m2>(p, s, split);
    default:
      return convert_values_of<kv_encoding::f16>(p, s, split);
  }
}

}  // namespace troupe::gpu::TROUPE_ISA_NS
