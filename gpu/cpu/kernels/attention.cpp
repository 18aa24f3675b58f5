// gpu/cpu/kernels/attention.hpp, compiled once per instruction set. A tile is taken in passes of a
// few queries whose sums stay in registers; all passes of a tile go over one split before the next,
// so its K and V are read from memory once, and with more than one pass converted to f32 once. Few
// queries (decode) take several token groups and several parts of the head at once to hide latency.
// K and V are fetched a split ahead into the second-level cache, since blocks lie scattered and
// hardware follows no block table. The sums of one query are the same operations in the same order
// in every shape.
#include "gpu/cpu/kernels/attention_merge.hpp"

namespace troupe::gpu::TROUPE_ISA_NS {

namespace {

constexpr std::uint32_t fetch_ahead = 16;  // groups of 16 tokens: what a split has

/// Groups of 16 tokens, or parts of 16 dimensions, that N queries take at once.
constexpr int parallel_groups(int queries) {
  const int most = accumulators / queries;
  return most >= 4 ? 4 : most >= 2 ? 2 : 1;
}

struct tile_state : merge_state {
  alignas(64) float q[query_tile * head_dim_max];        // [pass][dim][query], scaled
  alignas(64) float weight[pass_queries][split_tokens];  // of one pass: scores, then exp
  alignas(64) float part[pass_queries][head_dim_max];    // of one pass: sum of one split
  alignas(64) float key[split_tokens * head_dim_max];    // of one split: [group][dim][16]
  alignas(64) float value[split_tokens * head_dim_max];  // of one split: [token][dim]
  alignas(64) float lanes[pass_queries][16];             // sum of the weights by position mod 16
  float* kept;  // where the sums of each split stay, or null: merged
};

/// One split as one pass of queries sees it.
struct split_range {
  std::uint32_t first;   // token
  std::uint32_t count;   // tokens
  std::uint32_t groups;  // of 16 tokens, the last may be short
};

TROUPE_INLINE const std::uint16_t* head_of(const attention_params& p, std::uint32_t token) {
  return p.kv.base + p.blocks[token / p.kv.block_size] * p.kv.block_stride +
         p.kv_head * p.kv.head_stride;
}

/// The memory of step i of a split: K of its groups, V of its groups, K of the groups behind it.
TROUPE_INLINE const std::uint16_t* piece(const attention_params& p, const split_range& split,
                                         std::uint32_t i) {
  const std::uint32_t n = split.groups;
  const std::uint32_t token = split.first + 16 * (i < n ? i : i - n);
  const std::uint32_t last = p.position + p.rows - 1;
  const std::uint32_t at = token < last ? token : last;
  return head_of(p, at) + (i >= n && i < 2 * n ? p.kv.value_offset : 0) +
         std::size_t{at % p.kv.block_size / 16} * 16 * p.head_dim;
}

/// K and V where they lie, in f16.
struct stored {
  const attention_params& p;
  const split_range& split;

  using pointer = const std::uint16_t*;
  TROUPE_INLINE vf load(pointer x) { return load_f16(x); }
  TROUPE_INLINE void fetch(pointer x) { __builtin_prefetch(x, 0, 2); }
  std::size_t key_step() const { return p.kv.block_size; }
  pointer key(std::uint32_t group) const {
    const std::uint32_t at = split.first + 16 * group;
    return head_of(p, at) + at % p.kv.block_size;
  }
  pointer value(std::uint32_t t) const {
    return head_of(p, split.first + t) + p.kv.value_offset +
           std::size_t{(split.first + t) % p.kv.block_size} * p.head_dim;
  }
  pointer ahead(std::uint32_t i) const { return piece(p, split, i + fetch_ahead); }
};

/// K and V of one split, converted to f32 once for all passes of a tile.
struct converted {
  const attention_params& p;
  const tile_state& s;
  const split_range& split;

  using pointer = const float*;
  TROUPE_INLINE vf load(pointer x) { return TROUPE_ISA_NS::load(x); }
  TROUPE_INLINE void fetch(const std::uint16_t* x) { __builtin_prefetch(x, 0, 2); }
  std::size_t key_step() const { return 16; }
  pointer key(std::uint32_t group) const { return s.key + std::size_t{group} * 16 * p.head_dim; }
  pointer value(std::uint32_t t) const { return s.value + std::size_t{t} * p.head_dim; }
  /// The next split, into the cache that holds more, for convert() to find there.
  const std::uint16_t* ahead(std::uint32_t i) const { return piece(p, next, i); }

  const split_range next{split.first + split_tokens, split_tokens, split_tokens / 16};
};

void convert(const attention_params& p, tile_state& s, const split_range& split) {
  const stored from{p, split};
  for (std::uint32_t g = 0; g < split.groups; ++g) {
    const std::uint16_t *k = from.key(g), *ahead = from.ahead(g);
    float* to = s.key + std::size_t{g} * 16 * p.head_dim;
    for (std::uint32_t d = 0; d < p.head_dim; ++d, k += p.kv.block_size, ahead += 16, to += 16) {
      store(to, load_f16(k));
      stored::fetch(ahead);
    }
  }
  for (std::uint32_t g = 0; g < split.groups; ++g) {
    const std::uint16_t *v = from.value(16 * g), *ahead = from.ahead(split.groups + g);
    float* to = s.value + std::size_t{g} * 16 * p.head_dim;
    for (std::uint32_t i = 0; i < p.head_dim; ++i, v += 16, ahead += 16, to += 16) {
      store(to, load_f16(v));
      stored::fetch(ahead);
    }
  }
}

/// Scores of groups [group, group + G).
template <int N, int G, class Source>
TROUPE_INLINE void score_groups(const attention_params& p, tile_state& s, const float* q,
                                const Source& source, std::uint32_t group) {
  typename Source::pointer k[G];
  const std::uint16_t* ahead[G];
  const std::size_t step = source.key_step();
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
      Source::fetch(ahead[g]);
      ahead[g] += 16;
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

/// The largest score of one query.
TROUPE_INLINE void find_top(tile_state& s, int j) {
  const std::uint32_t whole = s.valid[j] / 16 * 16, rest = s.valid[j] % 16;
  vf largest = set1(-__builtin_inff());
  for (std::uint32_t t = 0; t < whole; t += 16) largest = max(largest, load(s.weight[j] + t));
  if (rest) {
    const vm seen = less(iota(), set1(static_cast<float>(rest)));
    largest = max(largest, select(seen, load(s.weight[j] + whole), largest));
  }
  s.split_max[j] = reduce_max(largest);
  store(s.lanes[j], zero());
}

/// Scores of the group at token t to weights, and their sum, for the queries that see any of it.
template <int N>
TROUPE_INLINE void soften(tile_state& s, std::uint32_t t) {
#pragma GCC unroll 1
  for (int j = 0; j < N; ++j) {
    if (s.valid[j] <= t) continue;
    vf e = exp_below(sub(load(s.weight[j] + t), set1(s.split_max[j])));
    if (s.valid[j] - t < 16) {
      const vm seen = less(iota(), set1(static_cast<float>(s.valid[j] - t)));
      e = select(seen, e, zero());
    }
    store(s.weight[j] + t, e);
    store(s.lanes[j], add(load(s.lanes[j]), e));
  }
}

/// part[j][dim .. dim + 16 D) = sum of weight * V in token order, over the tokens each query sees.
/// The first part of the head makes the weights as it goes.
template <int N, int D, class Source>
TROUPE_INLINE void weigh_values(const attention_params& p, tile_state& s, const Source& source,
                                const split_range& split, std::uint32_t dim) {
  std::uint32_t common = s.valid[0];  // the first query sees least
  vf acc[N][D];
#pragma GCC unroll 12
  for (int j = 0; j < N; ++j) {
#pragma GCC unroll 4
    for (int d = 0; d < D; ++d) acc[j][d] = zero();
  }
  std::uint32_t t = 0;
  while (t < common) {  // group after group
    if (dim == 0) soften<N>(s, t);
    const float* weight = &s.weight[0][t];
    const float* const end = weight + (common - t < 16 ? common - t : 16);
    auto v = source.value(t) + dim;
    const std::uint16_t* ahead = source.ahead(split.groups + t / 16) + dim;
    for (; weight < end; ++weight, v += p.head_dim, ahead += p.head_dim) {
      vf value[D];
#pragma GCC unroll 4
      for (int d = 0; d < D; ++d) value[d] = Source::load(v + 16 * d);
#pragma GCC unroll 2
      for (int d = 0; d < D; d += 2) Source::fetch(ahead + 16 * d);
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
      soften<N>(s, next);
  }
  for (; t < split.count; ++t) {  // the causal edge: some queries of the pass do not see this token
    const auto v = source.value(t) + dim;
    for (int j = 0; j < N; ++j) {
      if (t >= s.valid[j]) continue;
      for (int d = 0; d < D; ++d) {
        float* part = s.part[j] + dim + 16 * d;
        store(part, fma(set1(s.weight[j][t]), Source::load(v + 16 * d), load(part)));
      }
    }
  }
}

/// The sums of one split to where attention_merge finds them.
void keep_split(const attention_params& p, const tile_state& s, std::uint32_t first,
                std::uint32_t count, std::uint32_t token) {
  float* to = s.kept + split_sums_at(p, token / split_tokens, first);
  for (std::uint32_t j = 0; j < count; ++j, to += split_sum_floats(p.head_dim)) {
    if (s.valid[j] == 0) continue;
    for (std::uint32_t d = 0; d < p.head_dim; d += 16) store(to + d, load(s.part[j] + d));
    to[p.head_dim] = s.split_max[j];
    to[p.head_dim + 1] = s.split_total[j];
  }
}

/// One split for the queries [first, first + N) of the tile.
template <int N, class Source>
void run_pass(const attention_params& p, tile_state& s, const Source& source,
              const split_range& tile_split, std::uint32_t first) {
  constexpr int G = parallel_groups(N);
  const std::uint32_t token = tile_split.first;
  for (int j = 0; j < N; ++j) s.valid[j] = tokens_seen(p, first + j, token);
  const std::uint32_t count = s.valid[N - 1];  // the last query sees most
  if (count == 0) return;
  const split_range split{token, count, (count + 15) / 16};
  const float* q = s.q + std::size_t{first} * p.head_dim;
  std::uint32_t group = score_from<N, G>(p, s, q, source, split.groups, 0);
  if constexpr (G > 2) group = score_from<N, 2>(p, s, q, source, split.groups, group);
  score_from<N, 1>(p, s, q, source, split.groups, group);
  for (int j = 0; j < N; ++j) {
    if (s.valid[j]) find_top(s, j);
  }
  std::uint32_t d = 0;
  for (; d + 16 * G <= p.head_dim; d += 16 * G) weigh_values<N, G>(p, s, source, split, d);
  for (; d < p.head_dim; d += 16) weigh_values<N, 1>(p, s, source, split, d);
  for (int j = 0; j < N; ++j) {
    if (s.valid[j]) s.split_total[j] = reduce_add(load(s.lanes[j]));
  }
  if (s.kept) {
    keep_split(p, s, first, N, token);
  } else {
    merge_split(p, s, first, N, s.part[0], head_dim_max);
  }
}

template <class Source>
using pass_function = void (*)(const attention_params&, tile_state&, const Source&,
                               const split_range&, std::uint32_t);

template <class Source, int N = pass_queries>
pass_function<Source> pass_of(std::uint32_t queries) {
  if constexpr (N > 1) {
    if (queries < N) return pass_of<Source, N - 1>(queries);
  }
  return run_pass<N, Source>;
}

void load_queries(const attention_params& p, tile_state& s) {
  const std::uint32_t queries = p.rows * p.heads;
  for (std::uint32_t i = 0; i < queries; ++i) {
    const std::uint32_t first = i / pass_queries * pass_queries;
    const std::uint32_t width = queries - first < pass_queries ? queries - first : pass_queries;
    const float* q =
        p.q + (p.row + i / p.heads) * p.q_stride + std::size_t{p.head + i % p.heads} * p.head_dim;
    float* to = s.q + std::size_t{first} * p.head_dim + (i - first);
    for (std::uint32_t d = 0; d < p.head_dim; ++d) to[d * width] = q[d] * p.scale;
  }
}

/// All queries of the tile over the splits [begin, end), one split after another.
void go_over(const attention_params& p, tile_state& s, std::uint32_t begin, std::uint32_t end) {
  load_queries(p, s);
  const std::uint32_t queries = p.rows * p.heads;
  const std::uint32_t context = p.position + p.rows;
  for (std::uint32_t token = begin * split_tokens; token < end * split_tokens;
       token += split_tokens) {
    const std::uint32_t count = context - token < split_tokens ? context - token : split_tokens;
    const split_range split{token, count, (count + 15) / 16};
    if (queries <= pass_queries) {
      pass_of<stored>(queries)(p, s, stored{p, split}, split, 0);
      continue;
    }
    convert(p, s, split);
    for (std::uint32_t first = 0; first < queries; first += pass_queries) {
      const std::uint32_t width = queries - first < pass_queries ? queries - first : pass_queries;
      pass_of<converted>(width)(p, s, converted{p, s, split}, split, first);
    }
  }
}

}  // namespace

void attention(const attention_params& p) {
  tile_state s;
  s.kept = nullptr;
  begin_merge(p, s);
  go_over(p, s, 0, splits_of(p));
  write_out(p, s);
}

void attention_splits(const attention_params& p, std::uint32_t begin, std::uint32_t end,
                      float* sums) {
  tile_state s;
  s.kept = sums;
  go_over(p, s, begin, end);
}

}  // namespace troupe::gpu::TROUPE_ISA_NS
