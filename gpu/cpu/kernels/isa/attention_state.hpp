// What the stages of attention (attention.cpp) have in common: the state of a tile, one split of
// its context, where a group of 16 tokens lies, and the softmax of a split. Included by units of an
// instruction set alone.
#pragma once
#include "gpu/cpu/kernels/attention_merge.hpp"
#include "gpu/cpu/kernels/isa/code_line.hpp"

namespace troupe::gpu::TROUPE_ISA_NS {

inline constexpr std::uint32_t fetch_ahead = 16;  // groups of 16 tokens: what a split has

struct tile_state : merge_state {
  alignas(64) float q[query_tile * head_dim_max];        // [pass][dim][query], scaled
  alignas(64) float weight[pass_queries][split_tokens];  // of one pass: scores, then exp
  alignas(64) float part[pass_queries][head_dim_max];    // of one pass: sum of one split
  alignas(64) float key[split_tokens * head_dim_max];    // of one split: [group][dim][16]
  alignas(64) float value[split_tokens * head_dim_max];  // of one split: [token][dim]
  alignas(64) float lanes[pass_queries][16];             // sum of the weights by position mod 16
  float* kept;  // where the sums of each split stay, or null: merged

  // For K and V in codes: queries and weights as wide numbers (code_line.hpp), and what one is.
  alignas(64) std::byte q_wide[query_tile][head_dim_max / 4 * wide_bytes];
  float q_step[query_tile];
  std::int32_t q_sum[query_tile];  // of the wide numbers
  alignas(64) std::byte weight_wide[pass_queries][split_tokens / 4 * wide_bytes];
  float weight_step[pass_queries];
  std::int32_t weight_sum[pass_queries];
};

/// One split as one pass of queries sees it.
struct split_range {
  std::uint32_t first;   // token
  std::uint32_t count;   // tokens
  std::uint32_t groups;  // of 16 tokens, the last may be short
};

/// A stage goes over one split for `count` queries of the tile, the first of them `first`: scores
/// to s.weight, or weights to s.part.
using stage = void (*)(const attention_params&, tile_state&, const split_range&,
                       std::uint32_t first, std::uint32_t count);

/// The most queries of a tile that read floats as they lie; more have them converted to f32 first.
/// What is not f16 is read so by few alone: its instances are most of the code.
constexpr int direct_queries(kv_encoding encoding) {
  return encoding == kv_encoding::f16 || pass_queries < 4 ? pass_queries : 4;
}

/// `converted`: the split's K, or V, stand in s.key, or s.value, as f32.
stage float_scores(kv_encoding, bool converted, std::uint32_t count);
stage float_values(kv_encoding, bool converted, std::uint32_t count);
stage code_scores(kv_encoding);
stage code_values(kv_encoding);
/// Fill s.key and s.value.
void convert_keys(const attention_params&, tile_state&, const split_range&);
void convert_values(const attention_params&, tile_state&, const split_range&);

TROUPE_INLINE const std::byte* key_head(const attention_params& p, std::uint32_t token) {
  return p.kv.key_head(p.blocks[token / p.kv.block_size], p.kv_head);
}
TROUPE_INLINE const std::byte* value_head(const attention_params& p, std::uint32_t token) {
  return p.kv.value_head(p.blocks[token / p.kv.block_size], p.kv_head);
}
/// Scales of the group of 16 that begins at `token`.
TROUPE_INLINE const float* scales_at(const attention_params& p, const kv_side& side,
                                     const std::byte* head, std::uint32_t token) {
  return reinterpret_cast<const float*>(head + side.scales) + token % p.kv.block_size;
}
TROUPE_INLINE const float* key_scales(const attention_params& p, std::uint32_t token) {
  return scales_at(p, p.kv.key, key_head(p, token), token);
}
TROUPE_INLINE const float* value_scales(const attention_params& p, std::uint32_t token) {
  return scales_at(p, p.kv.value, value_head(p, token), token);
}

/// Bytes of the values of 16 tokens.
TROUPE_INLINE std::size_t group_bytes(const attention_params& p, const kv_side& side) {
  const std::size_t values = std::size_t{16} * p.head_dim;
  switch (side.encoding) {
    case kv_encoding::f16:
    case kv_encoding::bf16:
      return values * 2;
    case kv_encoding::int4:
      return values / 2;
    default:
      return values;
  }
}

/// The memory of step i of a split: K of its groups, V of its groups, K of the groups behind it.
TROUPE_INLINE const std::byte* piece(const attention_params& p, const split_range& split,
                                     std::uint32_t i) {
  const std::uint32_t n = split.groups;
  const std::uint32_t token = split.first + 16 * (i < n ? i : i - n);
  const std::uint32_t last = p.position + p.rows - 1;
  const std::uint32_t at = token < last ? token : last;
  const bool value = i >= n && i < 2 * n;
  return (value ? value_head(p, at) : key_head(p, at)) +
         at % p.kv.block_size / 16 * group_bytes(p, value ? p.kv.value : p.kv.key);
}

TROUPE_INLINE void fetch(const std::byte* x) {
  __builtin_prefetch(x, 0, 2);
}

/// A whole piece and, where it has scales, theirs.
TROUPE_INLINE void fetch_piece(const attention_params& p, const split_range& split,
                               std::uint32_t i) {
  const bool value = i >= split.groups && i < 2 * split.groups;
  const kv_side& side = value ? p.kv.value : p.kv.key;
  const std::byte* at = piece(p, split, i);
  const std::size_t bytes = group_bytes(p, side);
  for (std::size_t line = 0; line < bytes; line += 64) fetch(at + line);
  if (side.scaled()) fetch(at + bytes);  // exact for blocks of 16 tokens, near it for 32
}

/// The largest score of one query.
TROUPE_INLINE void find_top(tile_state& s, std::uint32_t j) {
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

/// One query's scores of the group at token t, which it sees some of, to weights, and their sum;
/// the weights times `scales` where there are any.
template <bool Scaled>
TROUPE_INLINE vf soften_query(tile_state& s, std::uint32_t j, std::uint32_t t, vf scales) {
  vf e = exp_below(sub(load(s.weight[j] + t), set1(s.split_max[j])));
  vf weight = Scaled ? mul(e, scales) : e;
  if (s.valid[j] - t < 16) {
    const vm seen = less(iota(), set1(static_cast<float>(s.valid[j] - t)));
    e = select(seen, e, zero());
    weight = Scaled ? select(seen, weight, zero()) : e;
  }
  store(s.weight[j] + t, weight);
  store(s.lanes[j], add(load(s.lanes[j]), e));
  return weight;
}

}  // namespace troupe::gpu::TROUPE_ISA_NS
