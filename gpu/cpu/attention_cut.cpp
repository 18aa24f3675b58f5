#include "gpu/cpu/attention_cut.hpp"

#include <algorithm>

namespace troupe::gpu {

namespace {

constexpr std::uint32_t shares = 4;             // a tile above 1/4 of a thread's work is cut,
constexpr std::uint32_t pieces_per_thread = 8;  // into pieces of at most 1/8 of it
constexpr std::size_t room_max = std::size_t{16} << 20;  // bytes

std::uint32_t queries_of(const attention_params& tile) {
  return tile.rows * tile.heads;
}

/// In passes over one split.
std::uint64_t cost_of(const attention_params& tile) {
  return std::uint64_t{splits_of(tile)} * ((queries_of(tile) + query_pass - 1) / query_pass);
}

bool is_long(const attention_params& tile, std::uint64_t work, std::uint32_t threads) {
  return (tile.rows == 1 || queries_of(tile) <= query_pass) && splits_of(tile) > 1 &&
         cost_of(tile) * shares * threads > work;
}

}  // namespace

std::size_t split_room(const model_config& config, std::uint32_t threads) {
  if (threads == 1) return 0;
  const std::size_t splits = (config.context + split_tokens - 1) / split_tokens;
  const std::size_t queries =
      std::clamp<std::size_t>(config.heads / config.kv_heads, query_pass, query_tile);
  return std::min(shares * threads * queries * splits * split_sum_floats(config.head_dim),
                  room_max / sizeof(float));
}

void cut_attention(std::span<const attention_params> tiles, std::uint32_t threads, std::size_t room,
                   std::vector<attention_piece>& pieces, std::vector<cut_tile>& cuts) {
  pieces.clear();
  cuts.clear();
  if (threads == 1) return;
  // A pure function of the tiles: where it cuts depends on thread counts and lengths, and no bit of
  // the result on where it cuts (gpu/README.md, numeric rule 4).
  std::uint64_t work = 0;
  for (const attention_params& tile : tiles) work += cost_of(tile);
  if (std::none_of(tiles.begin(), tiles.end(),
                   [&](const attention_params& tile) { return is_long(tile, work, threads); })) {
    return;
  }
  std::size_t used = 0;
  for (const attention_params& tile : tiles) {
    const std::uint32_t index = static_cast<std::uint32_t>(&tile - tiles.data());
    const std::uint32_t splits = splits_of(tile);
    const std::size_t sums = split_sums_at(tile, splits, 0);
    if (!is_long(tile, work, threads) || sums > room - used) {
      pieces.push_back({.tile = index});
      continue;
    }
    const std::uint64_t goal = std::max<std::uint64_t>(work / (pieces_per_thread * threads), 1);
    const std::uint32_t count = static_cast<std::uint32_t>(
        std::min<std::uint64_t>((cost_of(tile) + goal - 1) / goal, splits));
    const std::uint32_t cut = static_cast<std::uint32_t>(cuts.size());
    for (std::uint32_t i = 0; i < count; ++i) {
      pieces.push_back({index, cut, static_cast<std::uint32_t>(std::uint64_t{splits} * i / count),
                        static_cast<std::uint32_t>(std::uint64_t{splits} * (i + 1) / count)});
    }
    cuts.push_back({used, count});
    used += sums;
  }
}

}  // namespace troupe::gpu
