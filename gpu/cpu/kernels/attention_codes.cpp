// The stages of attention.cpp over K and V in codes of 8 or 4 bits, as integer products: a query,
// and the weights of a split, become wide numbers (isa/code_line.hpp), a 16,256th of their largest,
// which loses less than the f16 of a value does. The sums are exact integers, so every shape and
// every instruction set forms the same ones; each becomes a float once, times the steps. K's scales
// multiply the scores, V's the weights before they become wide.
#include "gpu/cpu/kernels/isa/attention_state.hpp"

namespace troupe::gpu::TROUPE_ISA_NS {

namespace {

template <bool FourBit>
inline constexpr std::int32_t zero_point = FourBit ? 8 : 128;

/// Lines of sums beside those of N queries: groups of tokens, or parts of 16 dimensions.
constexpr int beside(int queries, bool four_bit) {
  const int most = line_accumulators / queries;
  return most >= 4 ? 4 : most >= 2 || four_bit ? 2 : 1;
}

/// Scores of groups [group, group + G) for N queries: number j of the pass, `first` of the tile.
template <int N, int G, bool FourBit>
TROUPE_INLINE void score_groups(const attention_params& p, tile_state& s, const split_range& split,
                                std::uint32_t first, std::uint32_t j, std::uint32_t group) {
  const std::uint8_t* k[G];
  const std::byte *q = s.q_wide[first], *ahead[G];
  constexpr std::size_t stride = sizeof(s.q_wide[0]);
  // V comes behind K. It is asked for line by line, as K is read: a burst would hold that up.
  const bool fetches = j == 0;
  const std::size_t ahead_bytes = group_bytes(p, p.kv.value);
  const std::size_t ahead_step = ahead_bytes * (FourBit ? 8 : 4) / p.head_dim;
  sum_part acc[G][N][sum_parts];
#pragma GCC unroll 4
  for (int g = 0; g < G; ++g) {
    ahead[g] = piece(p, split, group + g + fetch_ahead);
    if (fetches && p.kv.value.scaled()) fetch(ahead[g] + ahead_bytes);
    const std::uint32_t t = split.first + 16 * (group + g);
    k[g] = reinterpret_cast<const std::uint8_t*>(key_head(p, t)) +
           t % p.kv.block_size / 16 * group_bytes(p, p.kv.key);
#pragma GCC unroll 4
    for (int i = 0; i < N; ++i) clear_sums(acc[g][i]);
  }
  const std::byte* const end = q + p.head_dim / 4 * wide_bytes;
  while (q < end) {
    line_part low[G][line_parts], high[G][line_parts];
#pragma GCC unroll 4
    for (int g = 0; g < G; ++g) {
      if constexpr (FourBit) {
        load_lines(k[g], low[g], high[g]);
      } else {
        load_line(k[g], low[g]);
      }
      k[g] += 64;
      for (std::size_t at = 0; fetches && at < ahead_step; at += 64) fetch(ahead[g] + at);
      ahead[g] += ahead_step;
    }
#pragma GCC unroll 4
    for (int i = 0; i < N; ++i) {
      wide_part x[wide_parts];
      load_wide(q + i * stride, x);
#pragma GCC unroll 4
      for (int g = 0; g < G; ++g) add_products(acc[g][i], low[g], x);
    }
    q += wide_bytes;
    if constexpr (FourBit) {
#pragma GCC unroll 4
      for (int i = 0; i < N; ++i) {
        wide_part x[wide_parts];
        load_wide(q + i * stride, x);
#pragma GCC unroll 4
        for (int g = 0; g < G; ++g) add_products(acc[g][i], high[g], x);
      }
      q += wide_bytes;
    }
  }
#pragma GCC unroll 4
  for (int g = 0; g < G; ++g) {
    const vf scales = load(key_scales(p, split.first + 16 * (group + g)));
#pragma GCC unroll 4
    for (int i = 0; i < N; ++i) {
      const vf sum = total(acc[g][i], -zero_point<FourBit> * s.q_sum[first + i]);
      store(s.weight[j + i] + 16 * (group + g), mul(mul(sum, set1(s.q_step[first + i])), scales));
    }
  }
}

template <int N, bool FourBit>
void score_queries(const attention_params& p, tile_state& s, const split_range& split,
                   std::uint32_t first, std::uint32_t j) {
  constexpr int G = beside(N, false);
  std::uint32_t group = 0;
  for (; group + G <= split.groups; group += G) {
    score_groups<N, G, FourBit>(p, s, split, first, j, group);
  }
  for (; group < split.groups; ++group) {
    score_groups<N, 1, FourBit>(p, s, split, first, j, group);
  }
}

/// The rest of a pass as one call, of at most N queries.
template <bool FourBit, int N = line_queries>
std::uint32_t score_some(const attention_params& p, tile_state& s, const split_range& split,
                         std::uint32_t first, std::uint32_t j, std::uint32_t left) {
  if constexpr (N > 1) {
    if (left < N) return score_some<FourBit, N - 1>(p, s, split, first, j, left);
  }
  score_queries<N, FourBit>(p, s, split, first, j);
  return N;
}

template <bool FourBit>
void scores(const attention_params& p, tile_state& s, const split_range& split, std::uint32_t first,
            std::uint32_t count) {
  for (std::uint32_t j = 0; j < count;) {
    j += score_some<FourBit>(p, s, split, first + j, j, count - j);
  }
}

/// The softmax of one query, of `count`, in the whole split, its weights times V's scales as wide
/// numbers. Half of the K behind the split is asked for meanwhile, the rest as V is read.
TROUPE_INLINE void widen_weights(const attention_params& p, tile_state& s, const split_range& split,
                                 std::uint32_t j, std::uint32_t count) {
  const std::uint32_t valid = s.valid[j];
  vf most = zero(), check = zero();
  for (std::uint32_t t = 0; t < valid; t += 16) {
    if (t % 32 == 0 && t / 32 % count == j) {
      fetch_piece(p, split, split.groups + t / 16 + fetch_ahead);
    }
    const vf weight = soften_query<true>(s, j, t, load(value_scales(p, split.first + t)));
    most = max(most, abs(weight));
    check = add(check, weight);  // NaN if any is
  }
  const float largest = reduce_max(most), sum = reduce_add(check);
  const bool none = sum != sum || largest < 1e-30f;
  s.weight_step[j] = sum != sum ? sum : none ? 0.0f : largest / wide_max;
  const vf inverse = set1(none ? 0.0f : wide_max / largest);
  vf total = zero();
  for (std::uint32_t t = 0; t < 16 * split.groups; t += 16) {
    const vf x = none || t >= valid ? zero() : round(mul(load(s.weight[j] + t), inverse));
    store_wide(s.weight_wide[j] + t / 4 * wide_bytes, x);
    total = add(total, x);  // exact
  }
  s.weight_sum[j] = static_cast<std::int32_t>(reduce_add(total));
}

/// part[j ..][dim .. dim + 16 D) of N queries, over the tokens that the last of them sees: what a
/// query does not see has the weight 0.
template <int N, int D, bool FourBit>
TROUPE_INLINE void weigh_lines(const attention_params& p, tile_state& s, const split_range& split,
                               std::uint32_t j, std::uint32_t dim) {
  const std::uint32_t fours = (s.valid[j + N - 1] + 3) / 4;
  const std::size_t step = group_bytes(p, p.kv.value) / 4, at = FourBit ? dim * 2 : dim * 4;
  constexpr std::size_t stride = sizeof(s.weight_wide[0]);
  const bool fetches = j == 0 && dim == 0;
  sum_part acc[N][D][sum_parts];
#pragma GCC unroll 4
  for (int i = 0; i < N; ++i) {
#pragma GCC unroll 4
    for (int d = 0; d < D; ++d) clear_sums(acc[i][d]);
  }
  const std::byte* weight = s.weight_wide[j];
  for (std::uint32_t group = 0; 4 * group < fours; ++group) {
    if (fetches && group % 2 == 1) {
      fetch_piece(p, split, split.groups + group + fetch_ahead);
    }
    const std::uint32_t t = split.first + 16 * group;
    const std::uint8_t* v = reinterpret_cast<const std::uint8_t*>(value_head(p, t)) +
                            t % p.kv.block_size / 4 * step + at;
    const std::uint32_t here = fours - 4 * group < 4 ? fours - 4 * group : 4;
    for (std::uint32_t four = 0; four < here; ++four, v += step, weight += wide_bytes) {
      line_part codes[D][line_parts];
      if constexpr (FourBit) {
#pragma GCC unroll 2
        for (int d = 0; d < D; d += 2) load_lines(v + 32 * d, codes[d], codes[d + 1]);
      } else {
#pragma GCC unroll 4
        for (int d = 0; d < D; ++d) load_line(v + 64 * d, codes[d]);
      }
#pragma GCC unroll 4
      for (int i = 0; i < N; ++i) {
        wide_part x[wide_parts];
        load_wide(weight + i * stride, x);
#pragma GCC unroll 4
        for (int d = 0; d < D; ++d) add_products(acc[i][d], codes[d], x);
      }
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < N; ++i) {
    const vf unit = set1(s.weight_step[j + i]);
    const std::int32_t offset = -zero_point<FourBit> * s.weight_sum[j + i];
#pragma GCC unroll 4
    for (int d = 0; d < D; ++d)
      store(s.part[j + i] + dim + 16 * d, mul(total(acc[i][d], offset), unit));
  }
}

template <int N, bool FourBit>
void weigh_queries(const attention_params& p, tile_state& s, const split_range& split,
                   std::uint32_t j) {
  constexpr int D = beside(N, FourBit), least = FourBit ? 2 : 1;
  std::uint32_t dim = 0;
  for (; dim + 16 * D <= p.head_dim; dim += 16 * D) weigh_lines<N, D, FourBit>(p, s, split, j, dim);
  for (; dim < p.head_dim; dim += 16 * least) weigh_lines<N, least, FourBit>(p, s, split, j, dim);
}

/// Two lines of sums for each query at least, where codes lie in pairs of lines.
constexpr int most_weighed(bool four_bit) {
  constexpr int pairs = line_accumulators > 1 ? line_accumulators / 2 : 1;
  return four_bit && pairs < line_queries ? pairs : line_queries;
}

template <bool FourBit, int N = most_weighed(FourBit)>
std::uint32_t weigh_some(const attention_params& p, tile_state& s, const split_range& split,
                         std::uint32_t j, std::uint32_t left) {
  if constexpr (N > 1) {
    if (left < N) return weigh_some<FourBit, N - 1>(p, s, split, j, left);
  }
  weigh_queries<N, FourBit>(p, s, split, j);
  return N;
}

template <bool FourBit>
void values(const attention_params& p, tile_state& s, const split_range& split, std::uint32_t,
            std::uint32_t count) {
  for (std::uint32_t j = 0; j < count; ++j) widen_weights(p, s, split, j, count);
  for (std::uint32_t j = 0; j < count;) j += weigh_some<FourBit>(p, s, split, j, count - j);
}

}  // namespace

stage code_scores(kv_encoding encoding) {
  return encoding == kv_encoding::int4 ? scores<true> : scores<false>;
}

stage code_values(kv_encoding encoding) {
  return encoding == kv_encoding::int4 ? values<true> : values<false>;
}

}  // namespace troupe::gpu::TROUPE_ISA_NS
