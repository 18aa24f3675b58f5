#include "gpu/cpu/forward.hpp"

#include <catch2/catch.hpp>

#include "tests/gpu/cpu/device_rig.hpp"

using namespace troupe::gpu;
using namespace troupe::test;

namespace {

constexpr std::uint32_t f16 = 1, q8_0 = 8;

std::uint64_t working_bytes(const tiny_llama& shape) {
  const auto model = load_tiny(shape);
  worker_pool workers(1);
  const model_weights weights(model->file, model->config, workers);
  const kv_pool kv(one_group_format(kv_f16, model->config.layers, model->config.kv_heads,
                                    model->config.head_dim, 16, 1),
                   workers);
  return forward_pass(model->config, weights, kv, select_kernels("auto"), workers).bytes();
}

}  // namespace

TEST_CASE("forward: the rest of the codes has memory where a layer takes it, and only there",
          "[cpu]") {
  constexpr std::uint64_t width = 256, blocks = width / block_cols;
  const auto bytes = [](std::uint32_t layers, std::uint32_t type, std::uint32_t values_type) {
    return working_bytes(
        {.layers = layers, .width = width, .type = type, .other_type = values_type});
  };
  const auto rest = forward_pass::segment_rows * width +
                    forward_pass::segment_rows / tile_rows * blocks * sizeof(tile_scales);
  REQUIRE(rest % 4096 == 0);  // sizes are in whole pages
  CHECK(bytes(10, q8_0, q8_0) == bytes(9, q8_0, q8_0) + rest);
  CHECK(bytes(10, f16, f16) == bytes(9, f16, f16));
  CHECK(bytes(10, f16, q8_0) == bytes(9, f16, q8_0) + rest);  // v alone
}

TEST_CASE("forward: codes take a byte and floats four, and only what some matrix reads has memory",
          "[cpu]") {
  // One of each: the inputs of o are floats first, those of the others only where they are wanted.
  constexpr std::uint64_t width = 256, ffn = 512, rows = forward_pass::segment_rows;
  const auto bytes = [](std::uint32_t type) {
    return working_bytes({.width = width, .ffn_width = ffn, .type = type});
  };
  const auto scales = [](std::uint64_t cols) {
    return rows / tile_rows * (cols / block_cols) * sizeof(tile_scales);
  };
  const std::uint64_t codes = rows * (width + width + ffn) + scales(width + width + ffn);
  const std::uint64_t values = 4 * rows * (width + ffn);
  CHECK(bytes(f16) + codes == bytes(q8_0) + values);
}
