#include "gpu/kv_format.hpp"

#include <catch2/catch.hpp>

using namespace troupe::gpu;

TEST_CASE("kv_format: bytes of a token, a block and its parts, by hand", "[gpu]") {
  // The default model: 30 layers, 3 KV heads of 64.
  CHECK(kv_token_bytes(kv_f16, 30, 3, 64) == 23040u);
  CHECK(kv_token_bytes(kv_f32, 30, 3, 64) == 46080u);
  CHECK(kv_token_bytes(kv_int8, 30, 3, 64) == 11520u);
  const auto format = one_group_format(kv_f16, 30, 3, 64, 16, 10);
  CHECK(format.token_bytes() == 23040);
  CHECK(format.token_row_bytes() == 16 * 23040);
  CHECK(format.block_bytes(0) == 368640);
  CHECK(format.largest_block_bytes() == 368640);
  CHECK(format.pool_bytes() == 10 * 368640);
  CHECK(format.pool_tokens() == 160);
  CHECK(format.head_bytes() == 64 * 2 * 16);
  CHECK(format.value_offset() == 3 * format.head_bytes());
  CHECK(format.layer_bytes() == 6 * format.head_bytes());
  CHECK(format.block_bytes(0) == 30 * format.layer_bytes());
}

TEST_CASE("kv_format: a type with scales has their bytes for each token and head", "[gpu]") {
  const kv_dtype scaled{"scaled", 4, 2};
  CHECK(kv_token_bytes(scaled, 1, 1, 64) == 2u * (32 + 2));
  const auto format = one_group_format(scaled, 2, 3, 64, 16, 1);
  CHECK(format.head_bytes() == 16 * (32 + 2));
  CHECK(format.block_bytes(0) == 2 * 3 * 2 * format.head_bytes());
}

TEST_CASE("kv_format: bytes past 64 bits are no number", "[gpu]") {
  CHECK_FALSE(kv_token_bytes(kv_f32, 1ull << 30, 1ull << 30, 1ull << 24));
  CHECK_FALSE(kv_token_bytes(kv_f16, 1, 1, 1ull << 62));
}

TEST_CASE("kv_format: groups have ranges of block ids and sizes of their own", "[gpu]") {
  const auto format = grouped_format(kv_f16, {{0, 2, 3}, {1}}, 2, 16, 16, 5);
  CHECK(format.num_blocks() == 10);
  CHECK(format.token_bytes() == 4 * 2 * 2 * 16 * 2);
  CHECK(format.block_bytes(0) == 3 * format.layer_bytes());
  CHECK(format.block_bytes(1) == format.layer_bytes());
  CHECK(format.largest_block_bytes() == format.block_bytes(0));
  CHECK(format.pool_bytes() == 5 * format.token_row_bytes());
  CHECK(format.pool_tokens() == 5 * 16);
  CHECK(format.group_of_block(0) == 0);
  CHECK(format.group_of_block(4) == 0);
  CHECK(format.group_of_block(5) == 1);
  CHECK(format.group_of_block(9) == 1);
  CHECK(format.group_of_block(10) == 2);  // none
  CHECK(format.bytes_of_block(7) == format.block_bytes(1));
}
