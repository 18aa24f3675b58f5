// What the kernel tests share: every instruction set this machine has (the others are named once on
// the output), random matrices as the file holds them, their exact values, and activations in
// tiles. Header only.
#pragma once
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gpu/cpu/kernels/embedding.hpp"
#include "gpu/cpu/kernels/isa/half.hpp"
#include "gpu/cpu/kernels/kernel_table.hpp"
#include "gpu/cpu/weights/pack_weights.hpp"
#include "tests/support/tiny_llama.hpp"

namespace troupe::test {

/// Calls body(kernels) for each supported set.
template <class Body>
void for_each_isa(Body body) {
  const auto supported = gpu::supported_kernels();
  static bool told = false;
  for (const char* name : {"avx512-vnni", "avx2", "portable"}) {
    bool found = false;
    for (const auto* kernels : supported) found = found || std::string(kernels->isa) == name;
    if (!found && !told) WARN(name << " is skipped: this processor does not have it");
  }
  told = true;
  for (const auto* kernels : supported) {
    INFO("isa " << kernels->isa);
    body(*kernels);
  }
}

inline std::vector<float> random_floats(std::uint64_t seed, std::size_t count,
                                        float spread = 1.0f) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal(0.0f, spread);
  std::vector<float> out(count);
  for (float& x : out) x = normal(random);
  return out;
}

struct test_matrix {
  gpu::packed_matrix packed;
  std::vector<std::byte> memory;
  std::vector<double> values;  ///< [row][cols], exact
};

/// `cols` is a multiple of the type's block.
inline test_matrix random_matrix(gpu::tensor_type type, std::uint32_t rows, std::uint32_t cols,
                                 std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::string bytes =
      random_weights(random, static_cast<std::uint32_t>(type), std::uint64_t{rows} * cols, 0.2f);
  const auto* file = reinterpret_cast<const std::byte*>(bytes.data());
  test_matrix m;
  m.packed = gpu::packed_shape(type, rows, cols);
  m.memory.resize(gpu::packed_bytes(m.packed));
  gpu::pack_panels(m.packed, type, file, 0, m.packed.panels, m.memory.data());
  m.packed.data = m.memory.data();
  std::vector<float> row(cols);
  for (std::uint32_t r = 0; r < rows; ++r) {
    gpu::embedding_row({type, file, cols, r, row.data()});
    m.values.insert(m.values.end(), row.begin(), row.end());
  }
  return m;
}

/// Owns the memory behind an activation.
struct tile_memory {
  tile_memory(std::uint32_t rows, std::uint32_t cols)
      : blocks((cols + 31) / 32),
        values(std::size_t{(rows + 7) / 8} * 8 * blocks * 32),
        codes(values.size()),
        scales(std::size_t{(rows + 7) / 8} * blocks) {}
  gpu::activation view() {
    return {values.data(), std::size_t{blocks} * 32, codes.data(), scales.data(), blocks};
  }
  /// scale * code: what a quantized matmul really multiplies with.
  double decoded(std::uint32_t row, std::uint32_t col) const {
    const std::size_t index = std::size_t{row / 8} * blocks + col / 32;
    return static_cast<double>(scales[index].scale[row % 8]) *
           codes[(index * 8 + row % 8) * 32 + col % 32];
  }
  std::uint32_t blocks;
  std::vector<float> values;
  std::vector<std::int8_t> codes;
  std::vector<gpu::tile_scales> scales;
};

/// Random rows, padded with zeros, with their codes.
inline tile_memory random_tiles(const gpu::kernel_table& kernels, std::uint32_t rows,
                                std::uint32_t cols, std::uint64_t seed) {
  tile_memory out(rows, cols);
  const auto x = random_floats(seed, std::size_t{rows} * cols);
  for (std::uint32_t r = 0; r < rows; ++r) {
    std::copy_n(x.begin() + r * cols, cols, out.values.begin() + r * out.blocks * 32);
  }
  kernels.quantize({out.values.data(), std::size_t{out.blocks} * 32, 0, rows, out.view()});
  return out;
}

}  // namespace troupe::test
