#include "gpu/kv_format.hpp"

#include <catch2/catch.hpp>

using namespace troupe::gpu;

TEST_CASE("kv_format: bytes of a token, a block and its parts, by hand", "[gpu]") {
  // The default model: 30 layers, 3 KV heads of 64.
  CHECK(kv_token_bytes(kv_f16, 30, 3, 64) == 23040u);
  CHECK(kv_token_bytes(kv_f32, 30, 3, 64) == 46080u);
  CHECK(kv_token_bytes(kv_int8, 30, 3, 64) == 30u * 3 * 2 * (64 + 4));
  CHECK(kv_token_bytes({kv_int8, kv_int4}, 30, 3, 64) == 30u * 3 * (64 + 4 + 32 + 4));
  const auto format = one_group_format(kv_f16, 30, 3, 64, 16, 10);
  CHECK(format.token_bytes() == 23040);
  CHECK(format.token_row_bytes() == 16 * 23040);
  CHECK(format.block_bytes(0) == 368640);
  CHECK(format.largest_block_bytes() == 368640);
  CHECK(format.pool_bytes() == 10 * 368640);
  CHECK(format.pool_tokens() == 160);
  CHECK(format.head_bytes(kv_f16) == 64 * 2 * 16);
  CHECK(format.value_offset(0) == 3 * format.head_bytes(kv_f16));
  CHECK(format.layer_bytes(0) == 6 * format.head_bytes(kv_f16));
  CHECK(format.block_bytes(0) == 30 * format.layer_bytes(0));
}

TEST_CASE("kv_format: a type with scales has their bytes for each token and head", "[gpu]") {
  const kv_dtype scaled{"scaled", 4, 2};
  CHECK(kv_token_bytes(scaled, 1, 1, 64) == 2u * (32 + 2));
  const auto format = one_group_format(scaled, 2, 3, 64, 16, 1);
  CHECK(format.head_bytes(scaled) == 16 * (32 + 2));
  CHECK(format.scales_offset(scaled) == 16 * 32);
  CHECK(format.block_bytes(0) == 2 * 3 * 2 * format.head_bytes(scaled));
}

TEST_CASE("kv_format: bytes past 64 bits are no number", "[gpu]") {
  CHECK_FALSE(kv_token_bytes(kv_f32, 1ull << 30, 1ull << 30, 1ull << 24));
  CHECK_FALSE(kv_token_bytes(kv_f16, 1, 1, 1ull << 62));
}

TEST_CASE("kv_format: groups have ranges of block ids and sizes of their own", "[gpu]") {
  const auto format = grouped_format(kv_f16, {{0, 2, 3}, {1}}, 2, 16, 16, 5);
  CHECK(format.num_blocks() == 10);
  CHECK(format.token_bytes() == 4 * 2 * 2 * 16 * 2);
  CHECK(format.block_bytes(0) == 3 * format.layer_bytes(0));
  CHECK(format.block_bytes(1) == format.layer_bytes(0));
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

TEST_CASE("kv_format: K and V have types of their own, and precise layers others", "[gpu]") {
  auto format = grouped_format({kv_int8, kv_int4}, {{0, 2, 3}, {1, 4}}, 2, 64, 16, 5);
  format.precise_layers = {0, 4};
  const std::uint64_t coded = 2 * (64 + 4 + 32 + 4) * 16, precise = 2 * 2 * 64 * 2 * 16;
  CHECK(format.types_of(0) == kv_f16);
  CHECK(format.types_of(1) == kv_types(kv_int8, kv_int4));
  CHECK(format.layer_bytes(0) == precise);
  CHECK(format.layer_bytes(1) == coded);
  CHECK(format.value_offset(0) == precise / 2);
  CHECK(format.value_offset(1) == 2 * (64 + 4) * 16);
  CHECK(format.layer_offset(0) == 0);
  CHECK(format.layer_offset(2) == precise);
  CHECK(format.layer_offset(3) == precise + coded);
  CHECK(format.layer_offset(1) == 0);
  CHECK(format.layer_offset(4) == coded);
  CHECK_THROWS_WITH(format.layer_offset(5), "layer 5 is in no group");
  CHECK(format.block_bytes(0) == precise + 2 * coded);
  CHECK(format.block_bytes(1) == coded + precise);
  CHECK(format.token_row_bytes() == format.block_bytes(0) + format.block_bytes(1));
  CHECK(format.pool_bytes() == 5 * format.token_row_bytes());
  CHECK(format.types_name() == "int8/int4, 2 layers f16");
  CHECK(format.token_formula() ==
        "3 layers x 2 kv heads x (68 + 36) bytes + 2 layers x 2 kv heads x (128 + 128) bytes");
  format.precise_layers.clear();
  CHECK(format.types_name() == "int8/int4");
  CHECK(format.token_formula() == "5 layers x 2 kv heads x (68 + 36) bytes");
  format.types = kv_bf16;
  CHECK(format.types_name() == "bf16");
  CHECK(format.token_formula() == "2 x 5 layers x 2 kv heads x 64 head dim x 2 bytes");
}

TEST_CASE("kv_format: precise layers are two numbers that the model's layers hold", "[gpu]") {
  CHECK(read_precise_layers("", 5) == layer_ends{0, 0});
  CHECK(read_precise_layers("2,1", 5) == layer_ends{2, 1});
  CHECK(read_precise_layers("0,0", 5) == layer_ends{0, 0});
  CHECK(read_precise_layers("4,1", 5) == layer_ends{4, 1});
  CHECK_THROWS_WITH(read_precise_layers("4,2", 5),
                    "--kv-cache-precise-layers: 4,2 are 6 layers, the model has 5");
  CHECK_THROWS_WITH(read_precise_layers("4294967295,4294967295", 5),
                    "--kv-cache-precise-layers: 4294967295,4294967295 are 8589934590 layers, the "
                    "model has 5");
  for (const char* text : {"1", "1,", ",1", "1,2,3", "a,b", "-1,0", "1 ,2", "4294967296,0"})
    CHECK_THROWS_WITH(read_precise_layers(text, 5),
                      Catch::Contains("is not FIRST,LAST, two numbers of layers such as 2,1"));
}
