// gpu/cpu/kernels/matmul.hpp and gate_up.hpp against sums in double of exactly the numbers the
// kernel multiplies (decoded codes for quantized weights). What is left is the rounding of at most
// 2 * cols / 32 (quantized) or cols (plain) single-precision additions: |error| <= steps * 2^-23 *
// sum |terms|, taken once more for the scale products.
#include "tests/gpu/cpu/kernels/kernel_rig.hpp"

using namespace troupe::gpu;
using namespace troupe::test;

namespace {

/// The type's block, or 32.
std::uint32_t column_step(tensor_type type) {
  return std::max(32u, block_elements(type));
}

struct expected_value {
  double value = 0.0, bound = 0.0;
};

expected_value expect_dot(const test_matrix& m, const tile_memory& in, std::uint32_t row,
                          std::uint32_t out) {
  expected_value e;
  for (std::uint32_t c = 0; c < m.packed.cols; ++c) {
    const double x =
        is_quantized(m.packed.kind) ? in.decoded(row, c) : in.values[row * in.blocks * 32 + c];
    const double term = m.values[std::size_t{out} * m.packed.cols + c] * x;
    e.value += term;
    e.bound += std::fabs(term);
  }
  // Codes are summed apart from their zero point or minimum, which may be larger than the terms: a
  // factor of 4.
  e.bound = 4 * e.bound * (m.packed.cols + 4) * 0x1p-23 + 1e-6;
  return e;
}

std::uint32_t check_matmul(const kernel_table& kernels, tensor_type type, std::uint32_t outputs,
                           std::uint32_t cols, std::uint32_t rows) {
  const test_matrix m = random_matrix(type, outputs, cols, 5);
  tile_memory in = random_tiles(kernels, rows, cols, 6);
  const std::size_t stride = std::size_t{m.packed.panels} * 16;
  const auto residual = random_floats(9, rows * stride);
  std::vector<float> out(rows * stride, 99.0f);
  kernels.matmul(
      {&m.packed, 0, m.packed.panels, 0, rows, in.view(), out.data(), stride, residual.data()});
  std::uint32_t wrong = 0;
  for (std::uint32_t r = 0; r < rows; ++r) {
    for (std::uint32_t o = 0; o < outputs; ++o) {
      const expected_value e = expect_dot(m, in, r, o);
      const double expected = e.value + residual[r * stride + o];
      wrong +=
          !(std::fabs(out[r * stride + o] - expected) <= e.bound + std::fabs(expected) * 0x1p-22);
    }
  }
  return wrong;
}

}  // namespace

TEST_CASE("matmul: every type, row count and odd size equals the sum in double", "[gpu]") {
  for_each_isa([](const kernel_table& kernels) {
    for (const tensor_type type : loadable_types()) {
      const std::uint32_t step = column_step(type);
      for (std::uint32_t rows = 1; rows <= 19; ++rows) {
        INFO(name_of(type) << ", rows " << rows);
        CHECK(check_matmul(kernels, type, 37, 3 * step, rows) == 0);
      }
      for (const std::uint32_t cols : {32u, 64u, 576u, 1536u}) {
        if (cols % step != 0) continue;
        INFO(name_of(type) << ", cols " << cols);
        CHECK(check_matmul(kernels, type, 16, cols, 9) == 0);
        CHECK(check_matmul(kernels, type, 1, cols, 2) == 0);
      }
    }
    for (const tensor_type type : {tensor_type::f32, tensor_type::f16, tensor_type::bf16}) {
      CHECK(check_matmul(kernels, type, 20, 45, 11) == 0);  // columns that fill no block
    }
  });
}

TEST_CASE("matmul: the largest codes do not overflow", "[gpu]") {
  for_each_isa([](const kernel_table& kernels) {
    const std::uint32_t cols = 1536;
    std::string row;
    for (std::uint32_t b = 0; b < cols / 32; ++b) {
      row += number_bytes(std::uint16_t{0x3C00}) +
             std::string(32, static_cast<char>(0x80));  // 1.0, -128
    }
    packed_matrix m = packed_shape(tensor_type::q8_0, 1, cols);
    std::vector<std::byte> memory(packed_bytes(m));
    pack_panels(m, tensor_type::q8_0, reinterpret_cast<const std::byte*>(row.data()), 0, 1,
                memory.data());
    m.data = memory.data();
    tile_memory in(1, cols);
    std::fill(in.values.begin(), in.values.begin() + cols, -127.0f);
    kernels.quantize({in.values.data(), cols, 0, 1, in.view()});
    std::vector<float> out(16);
    kernels.matmul({&m, 0, 1, 0, 1, in.view(), out.data(), 16, nullptr});
    CHECK(out[0] == 128.0f * 127.0f * cols);
  });
}

TEST_CASE("matmul: a row's bits do not depend on the rows beside it", "[gpu]") {
  for_each_isa([](const kernel_table& kernels) {
    for (const tensor_type type : loadable_types()) {
      INFO(name_of(type));
      const std::uint32_t cols = 5 * column_step(type);
      const test_matrix m = random_matrix(type, 48, cols, 5);
      tile_memory in = random_tiles(kernels, 19, cols, 6);
      std::vector<float> all(19 * 48), part(19 * 48);
      kernels.matmul({&m.packed, 0, 3, 0, 19, in.view(), all.data(), 48, nullptr});
      for (std::uint32_t end = 1; end <= 19; ++end) {
        std::fill(part.begin(), part.end(), 0.0f);
        kernels.matmul(
            {&m.packed, 0, 3, (end - 1) / 8 * 8, end, in.view(), part.data(), 48, nullptr});
        CHECK(std::memcmp(&part[(end - 1) * 48], &all[(end - 1) * 48], 48 * 4) == 0);
      }
    }
  });
}

TEST_CASE("gate_up: silu(gate) * up, in floats and in codes", "[gpu]") {
  for_each_isa([](const kernel_table& kernels) {
    for (const tensor_type type : loadable_types()) {
      INFO(name_of(type));
      const std::uint32_t cols = std::max(64u, column_step(type));
      const test_matrix gate = random_matrix(type, 72, cols, 1);
      const test_matrix up = random_matrix(type, 72, cols, 2);
      tile_memory in = random_tiles(kernels, 11, cols, 3);
      tile_memory out(11, 72);
      kernels.gate_up({&gate.packed, &up.packed, 0, out.blocks, 0, 11, in.view(), out.view()});
      std::uint32_t wrong = 0;
      for (std::uint32_t r = 0; r < 11; ++r) {
        for (std::uint32_t o = 0; o < 96; ++o) {
          double expected = 0.0;
          if (o < 72) {
            const double g = expect_dot(gate, in, r, o).value;
            expected = g / (1.0 + std::exp(-g)) * expect_dot(up, in, r, o).value;
          }
          const float value = out.values[r * 96 + o];
          wrong += !(std::fabs(value - expected) <= 1e-4 * (1.0 + std::fabs(expected)));
          const double step = out.scales[std::size_t{r / 8} * 3 + o / 32].scale[r % 8];
          wrong += !(std::fabs(out.decoded(r, o) - value) <= 0.501 * step);
        }
      }
      CHECK(wrong == 0);
    }
  });
}
