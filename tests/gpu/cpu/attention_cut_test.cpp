// Which tiles are cut: the rule at its edges, and that the pieces of a cut tile are all its splits.
#include "gpu/cpu/attention_cut.hpp"

#include <catch2/catch.hpp>

using namespace troupe::gpu;

namespace {

constexpr std::size_t much = std::size_t{1} << 30;

/// A decode tile of three heads over `splits` splits.
attention_params decode_tile(std::uint32_t splits) {
  attention_params tile;
  tile.head_dim = 64;
  tile.rows = 1;
  tile.heads = 3;
  tile.position = splits * split_tokens - 1;
  return tile;
}

attention_params chunk_tile(std::uint32_t splits, std::uint32_t rows) {
  attention_params tile = decode_tile(splits);
  tile.rows = rows;
  tile.position = splits * split_tokens - rows;
  return tile;
}

struct cut_result {
  std::vector<attention_piece> pieces;
  std::vector<cut_tile> cuts;
};

/// Checks what must hold of every cut: each tile there once, in order, either whole or in pieces
/// that follow each other from its first split to its last; its sums within the room and its own.
cut_result cut(const std::vector<attention_params>& tiles, std::uint32_t threads,
               std::size_t room = much) {
  cut_result r;
  cut_attention(tiles, threads, room, r.pieces, r.cuts);
  if (r.pieces.empty()) {
    CHECK(r.cuts.empty());
    return r;
  }
  std::size_t used = 0;
  auto piece = r.pieces.begin();
  std::uint32_t cuts = 0;
  for (std::uint32_t i = 0; i < tiles.size(); ++i) {
    REQUIRE(piece != r.pieces.end());
    REQUIRE(piece->tile == i);
    if (piece->cut == attention_piece::whole) {
      ++piece;
      continue;
    }
    REQUIRE(piece->cut == cuts);
    REQUIRE(cuts < r.cuts.size());
    CHECK(r.cuts[cuts].sums == used);
    used += split_sums_at(tiles[i], splits_of(tiles[i]), 0);
    std::uint32_t split = 0, count = 0;
    for (; piece != r.pieces.end() && piece->cut == cuts; ++piece, ++count) {
      CHECK(piece->tile == i);
      CHECK(piece->begin == split);
      CHECK(piece->end > piece->begin);
      split = piece->end;
    }
    CHECK(split == splits_of(tiles[i]));
    CHECK(count == r.cuts[cuts++].left);
  }
  CHECK(piece == r.pieces.end());
  CHECK(cuts == r.cuts.size());
  CHECK(used <= room);
  return r;
}

std::vector<attention_params> repeat(const attention_params& tile, std::size_t count) {
  return std::vector<attention_params>(count, tile);
}

}  // namespace

TEST_CASE("attention_cut: tiles of one length are cut while they are fewer than four a thread",
          "[gpu]") {
  for (const std::uint32_t threads : {2u, 3u, 16u}) {
    CHECK(cut(repeat(decode_tile(16), 4 * threads - 1), threads).cuts.size() == 4 * threads - 1);
    CHECK(cut(repeat(decode_tile(16), 4 * threads), threads).pieces.empty());
    CHECK(cut(repeat(decode_tile(1), 3), threads).pieces.empty());
    CHECK(cut(repeat(decode_tile(2), 3), threads).cuts.size() == 3);
  }
  CHECK(cut(repeat(decode_tile(32), 1), 1).pieces.empty());
  CHECK(cut({}, 8).pieces.empty());
}

TEST_CASE("attention_cut: one long sequence is shared evenly, split by split on many threads",
          "[gpu]") {
  const auto few = cut(repeat(decode_tile(16), 3), 2);
  CHECK(few.pieces.size() == 18);
  for (const attention_piece& piece : few.pieces) CHECK(piece.end - piece.begin <= 3);
  CHECK(cut(repeat(decode_tile(16), 3), 16).pieces.size() == 48);
}

TEST_CASE("attention_cut: a long sequence among many short ones is cut, these are not", "[gpu]") {
  auto tiles = repeat(decode_tile(1), 60);
  tiles.insert(tiles.begin() + 30, decode_tile(32));
  const auto r = cut(tiles, 2);
  CHECK(r.cuts.size() == 1);
  CHECK(r.pieces.size() > 60 + 4);
}

TEST_CASE("attention_cut: tiles of many rows stay whole", "[gpu]") {
  CHECK(cut(repeat(chunk_tile(16, 4), 3), 2).cuts.size() == 3);
  CHECK(cut(repeat(chunk_tile(16, 5), 3), 2).pieces.empty());
  auto wide = decode_tile(16);
  wide.heads = 64;  // one row, all heads on one of K and V
  CHECK(cut({wide}, 2).pieces.size() == 16);
}

TEST_CASE("attention_cut: what finds no room for its sums stays whole", "[gpu]") {
  const auto tiles = repeat(decode_tile(16), 3);
  const std::size_t one = split_sums_at(tiles[0], 16, 0);
  CHECK(cut(tiles, 8, 3 * one).cuts.size() == 3);
  CHECK(cut(tiles, 8, 3 * one - 1).cuts.size() == 2);
  CHECK(cut(tiles, 8, 0).cuts.empty());
}

TEST_CASE("attention_cut: the room holds all tiles that are cut, up to a bound", "[gpu]") {
  model_config config;
  config.heads = 9;
  config.kv_heads = 3;
  config.head_dim = 64;
  config.context = 8192;
  CHECK(split_room(config, 1) == 0);
  const auto tiles = repeat(chunk_tile(32, 4), 7);
  CHECK(cut(tiles, 2, split_room(config, 2)).cuts.size() == 7);
  config.context = 1 << 20;
  CHECK(split_room(config, 256) * sizeof(float) == std::size_t{16} << 20);
}
