// gpu/cpu/kernels/attention.hpp, compiled once per instruction set. A tile is taken in passes of a
// few queries whose sums stay in registers; all passes of a tile go over one split before the next,
// so its K and V are read from memory once, and floats are converted to f32 once where there is
// more than one pass. Each split has two stages, scores and weighted values, chosen by how K and V
// are coded. K and V are fetched a split ahead into the second-level cache, since blocks lie
// scattered and hardware follows no block table. The sums of one query are the same operations in
// the same order in every shape.
#include "gpu/cpu/kernels/isa/attention_state.hpp"

namespace troupe::gpu::TROUPE_ISA_NS {

namespace {

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

/// Whether a split's K, or V, is converted before the passes over it.
bool in_f32(const attention_params& p, const kv_side& side) {
  return !side.has_codes() &&
         p.rows * p.heads > static_cast<std::uint32_t>(direct_queries(side.encoding));
}

stage scores_for(const attention_params& p, std::uint32_t queries) {
  const kv_side& side = p.kv.key;
  return side.has_codes() ? code_scores(side.encoding)
                          : float_scores(side.encoding, in_f32(p, side), queries);
}

stage values_for(const attention_params& p, std::uint32_t queries) {
  const kv_side& side = p.kv.value;
  return side.has_codes() ? code_values(side.encoding)
                          : float_values(side.encoding, in_f32(p, side), queries);
}

/// One split for `queries` queries of the tile, the first of them `first`.
void run_pass(const attention_params& p, tile_state& s, const split_range& tile_split,
              std::uint32_t first, std::uint32_t queries) {
  const std::uint32_t token = tile_split.first;
  for (std::uint32_t j = 0; j < queries; ++j) s.valid[j] = tokens_seen(p, first + j, token);
  const std::uint32_t count = s.valid[queries - 1];  // the last query sees most
  if (count == 0) return;
  const split_range split{token, count, (count + 15) / 16};
  scores_for(p, queries)(p, s, split, first, queries);
  for (std::uint32_t j = 0; j < queries; ++j) {
    if (s.valid[j]) find_top(s, j);
  }
  values_for(p, queries)(p, s, split, first, queries);
  for (std::uint32_t j = 0; j < queries; ++j) {
    if (s.valid[j]) s.split_total[j] = reduce_add(load(s.lanes[j]));
  }
  if (s.kept) {
    keep_split(p, s, first, queries, token);
  } else {
    merge_split(p, s, first, queries, s.part[0], head_dim_max);
  }
}

/// A query's numbers as wide ones, spread as K is.
void widen_query(const attention_params& p, tile_state& s, std::uint32_t i, const float* q) {
  alignas(64) float scaled[head_dim_max];
  for (std::uint32_t d = 0; d < p.head_dim; d += 16) {
    store(scaled + d, mul(load(q + d), set1(p.scale)));
  }
  spread_head(scaled, p.head_dim);
  vf most = zero(), check = zero();
  for (std::uint32_t d = 0; d < p.head_dim; d += 16) {
    const vf x = load(scaled + d);
    most = max(most, abs(x));
    check = add(check, sub(x, x));  // NaN if any is NaN or infinite
  }
  const float largest = reduce_max(most), bad = reduce_add(check);
  const bool none = bad != bad || largest < 1e-30f;
  s.q_step[i] = bad != bad ? bad : none ? 0.0f : largest / wide_max;
  const vf inverse = set1(none ? 0.0f : wide_max / largest);
  vf sum = zero();
  for (std::uint32_t d = 0; d < p.head_dim; d += 16) {
    const vf x = none ? zero() : round(mul(load(scaled + d), inverse));
    store_wide(s.q_wide[i] + d / 4 * wide_bytes, x);
    sum = add(sum, x);  // exact
  }
  s.q_sum[i] = static_cast<std::int32_t>(reduce_add(sum));
}

void load_queries(const attention_params& p, tile_state& s) {
  const std::uint32_t queries = p.rows * p.heads;
  for (std::uint32_t i = 0; i < queries; ++i) {
    const float* q =
        p.q + (p.row + i / p.heads) * p.q_stride + std::size_t{p.head + i % p.heads} * p.head_dim;
    if (p.kv.key.has_codes()) {
      widen_query(p, s, i, q);
      continue;
    }
    const std::uint32_t first = i / pass_queries * pass_queries;
    const std::uint32_t width = queries - first < pass_queries ? queries - first : pass_queries;
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
    if (in_f32(p, p.kv.key)) convert_keys(p, s, split);
    if (in_f32(p, p.kv.value)) convert_values(p, s, split);
    for (std::uint32_t first = 0; first < queries; first += pass_queries) {
      const std::uint32_t width = queries - first < pass_queries ? queries - first : pass_queries;
      run_pass(p, s, split, first, width);
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
