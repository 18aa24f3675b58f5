// The ops on single rows (rms_norm, quantize, rope, logit statistics) against double. Their results
// are a handful of roundings from exact, so a relative 1e-6 holds; f16 stores add half a unit in
// the eleventh bit.
#include <limits>

#include "gpu/cpu/kernels/attention.hpp"
#include "tests/gpu/cpu/kernels/kernel_rig.hpp"
#include "tests/gpu/cpu/kernels/kv_rig.hpp"

using namespace troupe::gpu;
using namespace troupe::test;

namespace {

struct turns_of {
  std::vector<float> cosines, sines;
};

turns_of rotations(std::uint32_t positions, std::uint32_t dim) {
  turns_of out{std::vector<float>(positions * dim), std::vector<float>(positions * dim)};
  for (std::uint32_t p = 0; p < positions; ++p) {
    for (std::uint32_t d = 0; d < dim; ++d) {
      const double angle = p * std::pow(10000.0, -double(d / 2 * 2) / dim);
      out.cosines[p * dim + d] = static_cast<float>(std::cos(angle));
      out.sines[p * dim + d] = static_cast<float>(d % 2 ? std::sin(angle) : -std::sin(angle));
    }
  }
  return out;
}

/// The most that storing may lose of x, beside others of a head that are at most `most`. What codes
/// lose is 32 roundings of half a step, added with both signs and divided by the root of 32.
double half_step(const kv_dtype& type, double x, double most) {
  const double size = std::fabs(x) + 1e-6;
  switch (type.encoding) {
    case kv_encoding::f16:
      return size * 0x1p-11;
    case kv_encoding::bf16:
      return size * 0x1p-8;
    case kv_encoding::int8:
      return 1.5 * most / 127;
    case kv_encoding::fp8_e4m3:
      return size * 0x1p-4 + most * 0x1p-18;
    case kv_encoding::fp8_e5m2:
      return size * 0x1p-3;
    default:
      return 1.5 * most / 8;
  }
}

}  // namespace

TEST_CASE("quantize: codes are within half a step, and sums are those of the codes", "[gpu]") {
  for_each_isa([](const kernel_table& kernels) {
    for (const std::uint32_t rows : {1u, 8u, 13u}) {
      tile_memory t = random_tiles(kernels, rows, 96, rows);
      for (std::uint32_t r = 0; r < rows; ++r) {
        for (std::uint32_t c = 0; c < 96; ++c) {
          const std::size_t index = std::size_t{r / 8} * 3 + c / 32;
          const float step = t.scales[index].scale[r % 8];
          REQUIRE(std::fabs(t.decoded(r, c) - t.values[r * 96 + c]) <= 0.501 * step);
          int sum = 0, low_sum = 0;
          for (int k = 0; k < 32; ++k) {
            sum += t.codes[(index * 8 + r % 8) * 32 + static_cast<std::size_t>(k)];
            if (k == 15) low_sum = sum;
          }
          REQUIRE(t.scales[index].code_sum[r % 8] == sum);
          REQUIRE(t.scales[index].low_sum[r % 8] == low_sum);
          REQUIRE(t.scales[index].sum[r % 8] == step * static_cast<float>(sum));
        }
      }
    }
  });
}

TEST_CASE(
    "quantize: the rest of the codes brings a value to within a 30,000th of its block's largest",
    "[gpu]") {
  for_each_isa([](const kernel_table& kernels) {
    tile_memory t = random_tiles(kernels, 13, 96, 3);
    tile_memory rest(13, 96);
    activation both = t.view();
    both.rest_codes = rest.codes.data();
    both.rest_scales = rest.scales.data();
    kernels.quantize({t.values.data(), 96, 0, 13, both});
    for (std::uint32_t r = 0; r < 13; ++r) {
      for (std::uint32_t c = 0; c < 96; ++c) {
        const float largest = 127.0f * t.scales[std::size_t{r / 8} * 3 + c / 32].scale[r % 8];
        const double sum = t.decoded(r, c) + rest.decoded(r, c);
        REQUIRE(std::fabs(sum - t.values[r * 96 + c]) <= largest / 30000);
      }
    }
  });
}

TEST_CASE("quantize: zero, tiny, NaN and infinite blocks", "[gpu]") {
  for_each_isa([](const kernel_table& kernels) {
    tile_memory t(1, 128);
    std::fill_n(t.values.begin() + 32, 32, 1e-38f);
    t.values[64] = std::nanf("");
    t.values[96] = std::numeric_limits<float>::infinity();
    kernels.quantize({t.values.data(), 128, 0, 1, t.view()});
    CHECK(t.scales[0].scale[0] == 0.0f);
    CHECK(t.scales[1].scale[0] == 0.0f);
    CHECK(std::isnan(t.scales[2].scale[0]));
    CHECK(std::isnan(t.scales[3].sum[0]));
  });
}

TEST_CASE("rms_norm: rows are scaled to unit mean square, taken from where they stand", "[gpu]") {
  for_each_isa([](const kernel_table& kernels) {
    const std::uint32_t width = 45;
    auto x = random_floats(1, 4 * 64);
    auto weight = random_floats(2, 64);
    for (std::uint32_t c = width; c < 64; ++c) {
      weight[c] = 0.0f;
      for (std::uint32_t r = 0; r < 4; ++r) x[r * 64 + c] = 0.0f;
    }
    const std::uint32_t source[] = {3, 0};
    tile_memory out(2, width);
    kernels.rms_norm({x.data(), 64, source, weight.data(), width, 1e-5f, 0, 2, out.view()});
    for (std::uint32_t r = 0; r < 2; ++r) {
      const float* row = &x[source[r] * 64];
      double squares = 0.0;
      for (std::uint32_t c = 0; c < width; ++c) squares += double{row[c]} * row[c];
      for (std::uint32_t c = 0; c < 64; ++c) {
        const double expected = row[c] / std::sqrt(squares / width + 1e-5) * weight[c];
        CHECK(out.values[r * 64 + c] == Approx(expected).epsilon(1e-6).margin(1e-9));
      }
    }
  });
}

TEST_CASE("rope: pairs turn by their angle; K and V are stored as their types say", "[gpu]") {
  for_each_isa([](const kernel_table& kernels) {
    for (const std::uint32_t size : {16u, 32u}) {
      for (const kv_dtype& type : cpu_kv_dtypes) {
        const std::uint32_t dim = 32;
        auto q = random_floats(1, 2 * 64);
        const auto q_before = q;
        const auto k = random_floats(2, 2 * 32), v = random_floats(3, 2 * 32);
        const auto turns = rotations(40, dim);
        kv_memory kv(type, dim, size, 3 * size, 1);
        const std::uint32_t positions[] = {5, 37}, blocks[] = {2, 1};
        kv.table = {blocks[0], size == 16 ? blocks[0] : blocks[1], blocks[1]};
        kernels.rope({q.data(), 64, k.data(), v.data(), 32, 2, 1, dim, turns.cosines.data(),
                      turns.sines.data(), positions, blocks, kv.view, 0, 2});
        for (std::uint32_t r = 0; r < 2; ++r) {
          const double most = 4.0;  // of 64 normal numbers
          const auto keys = kv.key_row(0, positions[r]), values = kv.value_row(0, positions[r]);
          for (std::uint32_t d = 0; d < dim; ++d) {
            const std::size_t at = positions[r] * dim + d;
            const double c = turns.cosines[at], s = turns.sines[at];
            const double turned =
                q_before[r * 64 + 32 + d] * c + q_before[r * 64 + 32 + (d ^ 1)] * s;
            CHECK(q[r * 64 + 32 + d] == Approx(turned).epsilon(1e-5).margin(1e-6));
            const double key = k[r * 32 + d] * c + k[r * 32 + (d ^ 1)] * s, value = v[r * 32 + d];
            INFO(type.name << ", block size " << size << ", row " << r << ", dim " << d);
            CHECK(std::fabs(keys[d] - key) <= half_step(type, key, most));
            CHECK(std::fabs(values[d] - value) <= half_step(type, value, most));
          }
        }
      }
    }
  });
}

TEST_CASE("rope: a head of zeros, of NaN and of infinities is stored as what it is", "[gpu]") {
  for_each_isa([](const kernel_table& kernels) {
    for (const kv_dtype& type : cpu_kv_dtypes) {
      const std::uint32_t dim = 32;
      std::vector<float> q(dim), zeros(3 * dim), v(3 * dim);
      v[dim + 3] = std::nanf("");
      v[2 * dim + 4] = std::numeric_limits<float>::infinity();
      const auto turns = rotations(4, dim);
      kv_memory kv(type, dim, 16, 16, 1);
      const std::uint32_t positions[] = {1, 2, 3}, blocks[] = {0, 0, 0};
      kernels.rope({q.data(), 0, zeros.data(), v.data(), dim, 1, 1, dim, turns.cosines.data(),
                    turns.sines.data(), positions, blocks, kv.view, 0, 3});
      INFO(type.name);
      for (std::uint32_t d = 0; d < dim; ++d) REQUIRE(kv.value(0, 1, d) == 0.0);
      for (std::uint32_t d = 0; d < dim; ++d) REQUIRE(kv.key(0, 1, d) == 0.0);
      if (type.head_scale_bytes == 0) continue;  // each value stands for itself
      for (std::uint32_t d = 0; d < dim; ++d) REQUIRE(std::isnan(kv.value(0, 2, d)));
      for (std::uint32_t d = 0; d < dim; ++d) REQUIRE(std::isnan(kv.value(0, 3, d)));
    }
  });
}

TEST_CASE("logit statistics: maximum, ties, NaN and sums of exp at odd lengths", "[gpu]") {
  for_each_isa([](const kernel_table& kernels) {
    for (const std::uint32_t count : {1u, 15u, 16u, 17u, 1023u, 1025u, 3000u}) {
      auto x = random_floats(count, count, 3.0f);
      if (count > 20) x[7] = x[18] = 50.0f;
      const logit_stats found = kernels.stats({x.data(), count});
      const auto best = std::max_element(x.begin(), x.end());
      CHECK(found.best == best - x.begin());
      CHECK(found.max == *best);
      CHECK_FALSE(found.has_nan);
      double expected = 0.0;
      for (const float v : x) expected += std::exp((double{v} - *best) * 0.5);
      std::vector<float> weights(count);
      CHECK(kernels.exp_sum({x.data(), count, *best, 0.5f, weights.data()}) ==
            Approx(expected).epsilon(1e-5));
      CHECK(weights[count - 1] ==
            Approx(std::exp((x[count - 1] - *best) * 0.5f)).epsilon(1e-5).margin(1e-30));
      x[count / 2] = std::nanf("");
      CHECK(kernels.stats({x.data(), count}).has_nan);
    }
  });
}

TEST_CASE("half: every f16 value survives the way to f32 and back", "[gpu]") {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = half_to_float(half);
    if (std::isnan(value)) continue;
    REQUIRE(float_to_half(value) == half);
  }
  CHECK(float_to_half(65520.0f) == 0x7C00);
  CHECK(float_to_half(1.0f + 0x1p-11f) == 0x3C00);  // ties to even
}
