// Every tensor type's numbers, against blocks that the format's reference arithmetic dequantized
// (tests/data says how), and their way through panels and kernels.
#include <fstream>
#include <nlohmann/json.hpp>

#include "gpu/cpu/weights/block_codes.hpp"
#include "tests/gpu/cpu/kernels/kernel_rig.hpp"
#include "tests/support/source_dir.hpp"

using namespace troupe::gpu;
using namespace troupe::test;

namespace {

struct known_row {
  tensor_type type;
  std::vector<std::byte> bytes;
  std::vector<float> values;
};

std::vector<std::byte> bytes_of_hex(const std::string& hex) {
  std::vector<std::byte> out;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    out.push_back(static_cast<std::byte>(std::stoul(hex.substr(i, 2), nullptr, 16)));
  return out;
}

std::vector<known_row> known_rows() {
  std::ifstream in(troupe::test::source_dir() + "/tests/data/weight_blocks.json");
  const auto data = nlohmann::json::parse(in);
  std::vector<known_row> out;
  for (const tensor_type type : loadable_types()) {
    if (type == tensor_type::f32 || type == tensor_type::f16) continue;  // plain numbers
    const auto& entry = data.at(name_of(type));
    known_row row{type, bytes_of_hex(entry["bytes"].get<std::string>()), {}};
    const auto values = bytes_of_hex(entry["values"].get<std::string>());
    row.values.resize(values.size() / 4);
    std::memcpy(row.values.data(), values.data(), values.size());
    out.push_back(std::move(row));
  }
  return out;
}

std::vector<float> read_row(const known_row& row) {
  std::vector<float> out(row.values.size());
  const auto cols = static_cast<std::uint32_t>(row.values.size());
  embedding_row({row.type, row.bytes.data(), cols, 0, out.data()});
  return out;
}

/// The sum of the magnitudes that weight `c` is made of: how far apart a kernel, which sums codes
/// and minima separately, may round.
float magnitude(const known_row& row, std::uint32_t c) {
  if (!has_block_codes(row.type)) return 16.0f * std::fabs(row.values[c]);
  const block_codes block = read_block(row.type, row.bytes.data(), c / 32);
  return std::fabs(block.scale[c % 32 / 16] * block.code[c % 32]) + std::fabs(block.minimum);
}

}  // namespace

TEST_CASE("weight types: an embedding row is what the format's own arithmetic makes of it",
          "[gpu]") {
  for (const known_row& row : known_rows()) {
    INFO(name_of(row.type));
    CHECK(row.values.size() >= 32);
    CHECK(row.bytes.size() ==
          file_row_bytes(row.type, static_cast<std::uint32_t>(row.values.size())));
    CHECK(read_row(row) == row.values);
  }
}

TEST_CASE("weight types: the second row of an embedding starts where the first one ends", "[gpu]") {
  for (const known_row& row : known_rows()) {
    const auto cols = static_cast<std::uint32_t>(row.values.size());
    auto two = row.bytes;
    std::fill(two.begin(), two.end(), std::byte{0});
    two.insert(two.end(), row.bytes.begin(), row.bytes.end());
    std::vector<float> out(cols);
    embedding_row({row.type, two.data(), cols, 1, out.data()});
    INFO(name_of(row.type));
    CHECK(out == row.values);
  }
}

TEST_CASE("weight types: a row out of the panels has the bits of the row in the file", "[gpu]") {
  constexpr std::uint32_t rows = 2 * panel_rows + 3, cols = 512;
  for (const tensor_type type : loadable_types()) {
    const auto number = static_cast<std::uint32_t>(type);
    INFO(name_of(type));
    std::mt19937_64 random(number);
    const std::string bytes = random_weights(random, number, std::uint64_t{rows} * cols, 0.2f);
    const auto* file = reinterpret_cast<const std::byte*>(bytes.data());
    packed_matrix m = packed_shape(type, rows, cols);
    std::vector<std::byte> memory(packed_bytes(m));
    pack_panels(m, type, file, 0, m.panels, memory.data());
    m.data = memory.data();
    std::vector<float> stored(cols), packed(cols);
    std::uint32_t differing = 0;
    for (std::uint32_t r = 0; r < rows; ++r) {
      embedding_row({type, file, cols, r, stored.data()});
      packed_row(m, r, packed.data());
      differing += std::memcmp(stored.data(), packed.data(), cols * sizeof(float)) != 0;
    }
    CHECK(differing == 0);
  }
}

TEST_CASE("weight types: a row out of a panel is what the format's own arithmetic makes of it",
          "[gpu]") {
  for (const known_row& row : known_rows()) {
    INFO(name_of(row.type));
    const auto cols = static_cast<std::uint32_t>(row.values.size());
    packed_matrix m = packed_shape(row.type, 1, cols);
    std::vector<std::byte> memory(packed_bytes(m));
    pack_panels(m, row.type, row.bytes.data(), 0, 1, memory.data());
    m.data = memory.data();
    std::vector<float> out(cols);
    packed_row(m, 0, out.data());
    CHECK(out == row.values);
  }
}

// An activation of 127 in one column and 0 in the others has the scale 1 and the code 127, both
// exact, so the output is that column's weight times 127 but for three roundings to f32. A scale
// that had gone through f16 would be off by up to 2^-12.
TEST_CASE("weight types: each column's weight comes out of a panel with all its bits", "[gpu]") {
  const auto rows = known_rows();
  for_each_isa([&](const kernel_table& kernels) {
    for (const known_row& row : rows) {
      const auto cols = static_cast<std::uint32_t>(row.values.size());
      packed_matrix m = packed_shape(row.type, 1, cols);
      std::vector<std::byte> memory(packed_bytes(m));
      pack_panels(m, row.type, row.bytes.data(), 0, 1, memory.data());
      m.data = memory.data();
      std::uint32_t wrong = 0;
      for (std::uint32_t c = 0; c < cols; ++c) {
        if (!std::isfinite(row.values[c]) || row.type == tensor_type::bf16) continue;
        tile_memory in(1, cols);
        in.values[c] = 127.0f;
        kernels.quantize({in.values.data(), std::size_t{in.blocks} * 32, 0, 1, in.view()});
        std::vector<float> out(16);
        kernels.matmul({&m, 0, 1, 0, 1, in.view(), out.data(), 16, nullptr});
        const double bound = 127.0 * 3 * 0x1p-24 * magnitude(row, c);
        wrong += !(std::fabs(out[0] - 127.0 * row.values[c]) <= bound);
      }
      INFO(name_of(row.type));
      CHECK(wrong == 0);
    }
  });
}

TEST_CASE("weight types: a BF16 panel holds the numbers of the file", "[gpu]") {
  for_each_isa([](const kernel_table& kernels) {
    test_matrix m = random_matrix(tensor_type::bf16, 17, 40, 3);
    std::uint32_t wrong = 0;
    for (std::uint32_t c = 0; c < 40; ++c) {
      tile_memory in(1, 40);
      in.values[c] = 1.0f;
      std::vector<float> out(32);
      kernels.matmul({&m.packed, 0, 2, 0, 1, in.view(), out.data(), 32, nullptr});
      for (std::uint32_t r = 0; r < 17; ++r) wrong += out[r] != m.values[r * 40 + c];
    }
    CHECK(wrong == 0);
  });
}

TEST_CASE("weight types: a panel takes no more than its form needs", "[gpu]") {
  const auto bits = [](tensor_type type) {
    return static_cast<double>(packed_bytes(packed_shape(type, 16, 512))) * 8 / (16 * 512);
  };
  CHECK(bits(tensor_type::f32) == 32.0);
  CHECK(bits(tensor_type::bf16) == 16.0);
  CHECK(bits(tensor_type::q4_0) == 4.5);
  CHECK(bits(tensor_type::q4_1) == 5.0);
  CHECK(bits(tensor_type::q5_0) == 8.5);
  CHECK(bits(tensor_type::q8_0) == 8.5);
  CHECK(bits(tensor_type::q4_k) == 6.0);
  CHECK(bits(tensor_type::q5_1) == 10.0);
  CHECK(bits(tensor_type::q5_k) == 10.0);
  CHECK(bits(tensor_type::q6_k) == 10.0);
}
