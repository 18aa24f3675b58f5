// Causal attention of a tile of queries (rows of one sequence x the query heads of one KV head)
// over their context. The context is cut into splits of 256 tokens at absolute positions. Within a
// split: scores (dims in order), maximum, exp, sum (lane = position mod 16, one fixed tree),
// weighted V in token order; splits are merged in index order. So a query's bits depend on its own
// position and context alone. Positions behind a query are never multiplied in. Reads K and V once
// per token and tile, as the view says they are coded; needs 0.9 MB of stack; `out` is [row][head *
// head_dim + d].
//
// attention(p) does a whole tile. Several threads can share one: attention_splits(p, begin, end,
// sums) leaves what each split [begin, end) gives each query, in any order and on any thread, and
// once every split is there attention_merge(p, sums) writes `out`, the same bits as attention(p).
// sums, [split][query]: weighted V x head_dim, maximum, total, 14 unused; where a query sees
// nothing of a split, nothing is written or read.
#pragma once
#include "gpu/cpu/kernels/kv_view.hpp"

namespace troupe::gpu {

inline constexpr std::uint32_t split_tokens = 256;
inline constexpr std::uint32_t query_tile = 96;  ///< most queries (rows x heads) of one tile
inline constexpr std::uint32_t query_pass = 12;  ///< tiles of a multiple of it are the cheapest
inline constexpr std::uint32_t head_dim_max = 256;

struct attention_params {
  const float* q = nullptr;  ///< [row][q_stride], rotated
  std::size_t q_stride = 0;
  float* out = nullptr;
  std::size_t out_stride = 0;
  kv_view kv;
  const std::uint32_t* blocks = nullptr;  ///< block table of the sequence
  std::uint32_t head_dim = 0;             ///< multiple of 16, <= 256
  float scale = 0.0f;
  std::uint32_t row = 0;  ///< first row of the tile
  std::uint32_t rows = 0;
  std::uint32_t position = 0;  ///< of the first row
  std::uint32_t kv_head = 0;
  std::uint32_t head = 0;   ///< first query head
  std::uint32_t heads = 0;  ///< rows * heads <= query_tile
};

constexpr std::size_t split_sum_floats(std::uint32_t head_dim) {
  return std::size_t{head_dim} + 16;
}
constexpr std::uint32_t splits_of(const attention_params& p) {
  return (p.position + p.rows + split_tokens - 1) / split_tokens;
}
/// Where the sums of a query of the tile begin.
constexpr std::size_t split_sums_at(const attention_params& p, std::uint32_t split,
                                    std::uint32_t query) {
  return (std::size_t{split} * p.rows * p.heads + query) * split_sum_floats(p.head_dim);
}

}  // namespace troupe::gpu
