// gpu/cpu/kernels/attention.hpp against softmax(q k / sqrt(d)) v in double over the same stored K
// and V. Weights sum to one, so the error stays below about 1e-5 of the largest |v|: some hundreds
// of roundings of 2^-24 and exp to 2 units. Where K or V are codes, the query, or the weights, are
// rounded to a 16,256th of their largest as well.
#include "gpu/cpu/kernels/attention.hpp"

#include "tests/gpu/cpu/kernels/kernel_rig.hpp"
#include "tests/gpu/cpu/kernels/kv_rig.hpp"

using namespace troupe::gpu;
using namespace troupe::test;

namespace {

/// Each type on both sides, and pairs of different ones.
std::vector<kv_types> all_types(std::uint32_t dim) {
  std::vector<kv_types> out;
  for (const auto& type : cpu_kv_dtypes) out.emplace_back(type);
  out.insert(out.end(), {{kv_int8, kv_f16},
                         {kv_f16, kv_int8},
                         {kv_int8, kv_int4},
                         {kv_fp8_e4m3, kv_bf16},
                         {kv_int4, kv_fp8_e5m2}});
  // Codes of 4 bits come in pairs of 16 dimensions.
  if (dim % 32 != 0)
    std::erase_if(out, [](const auto& t) { return t.k == kv_int4 || t.v == kv_int4; });
  return out;
}

struct cache : kv_memory {
  using kv_memory::kv_memory;
  cache(const kv_types& of, std::uint32_t head_dim, std::uint32_t size, std::uint32_t tokens)
      : kv_memory(of, head_dim, size, tokens) {
    fill(1);
  }
};

/// K and V of one head as they are read back, once for all queries.
struct read_head {
  read_head(const cache& kv, std::uint32_t head) {
    for (std::uint32_t t = 0; t < kv.blocks * kv.view.block_size; ++t) {
      keys.push_back(kv.key_row(head, t));
      values.push_back(kv.value_row(head, t));
    }
  }
  std::vector<std::vector<double>> keys, values;
};

std::vector<double> expected_output(const read_head& kv, const float* q, std::uint32_t position) {
  const std::size_t dim = kv.keys[0].size();
  std::vector<double> weight(position + 1), out(dim, 0.0);
  double top = -1e300, total = 0.0;
  for (std::uint32_t t = 0; t <= position; ++t) {
    for (std::size_t d = 0; d < dim; ++d) weight[t] += q[d] * kv.keys[t][d];
    weight[t] /= std::sqrt(static_cast<double>(dim));
    top = std::max(top, weight[t]);
  }
  for (double& w : weight) total += w = std::exp(w - top);
  for (std::uint32_t t = 0; t <= position; ++t) {
    for (std::size_t d = 0; d < dim; ++d) out[d] += weight[t] / total * kv.values[t][d];
  }
  return out;
}

attention_params params_of(const cache& kv, const std::vector<float>& q, std::vector<float>& out) {
  attention_params p;
  p.q = q.data();
  p.q_stride = p.out_stride = std::size_t{12} * kv.dim;
  p.out = out.data();
  p.kv = kv.view;
  p.blocks = kv.table.data();
  p.head_dim = kv.dim;
  p.scale = 1.0f / std::sqrt(static_cast<float>(kv.dim));
  p.kv_head = 1;
  return p;
}

}  // namespace

TEST_CASE("attention: every tile shape, at block and split edges, equals softmax in double",
          "[gpu]") {
  constexpr std::pair<std::uint32_t, std::uint32_t> shapes[] = {
      {1, 1}, {1, 3}, {2, 3}, {4, 3}, {12, 1}, {5, 2}, {13, 1}, {7, 5}, {25, 3}, {19, 5}, {96, 1}};
  for_each_isa([&](const kernel_table& kernels) {
    for (const std::uint32_t size : {16u, 32u}) {
      for (const std::uint32_t dim : {16u, 48u, 64u}) {
        for (const kv_types& types : all_types(dim)) {
          const cache kv(types, dim, size, 640);
          const read_head read(kv, 1);
          const bool codes = kv.view.key.has_codes() || kv.view.value.has_codes();
          const auto q = random_floats(3, std::size_t{query_tile} * 12 * dim);
          for (const std::uint32_t position : {0u, 15u, 16u, 250u, 255u, 256u, 527u}) {
            for (const auto& [rows, heads] : shapes) {
              std::vector<float> out(q.size());
              attention_params p = params_of(kv, q, out);
              p.rows = rows;
              p.heads = heads;
              p.head = 2;
              p.position = position;
              kernels.attention(p);
              const std::uint32_t queries = rows * heads;
              double worst = 0.0;
              // Of a large tile every 11th query and the last: each pass, most places in a pass.
              for (std::uint32_t j = 0; j < queries; ++j) {
                if (queries > 12 && j % 11 != 0 && j + 1 != queries) continue;
                const std::size_t at = (j / heads) * 12 * dim + (2 + j % heads) * dim;
                const auto expected = expected_output(read, &q[at], position + j / heads);
                for (std::uint32_t d = 0; d < dim; ++d)
                  worst = std::max(worst, std::fabs(out[at + d] - expected[d]));
              }
              INFO(types.name() << ", block " << size << ", dim " << dim << ", position "
                                << position << ", " << rows << " x " << heads);
              CHECK(worst < (codes ? 2e-4 : 2e-5));
            }
          }
        }
      }
    }
  });
}

TEST_CASE("attention: a query's bits do not depend on the queries it shares a tile with", "[gpu]") {
  for_each_isa([](const kernel_table& kernels) {
    for (const std::uint32_t dim : {48u, 64u, 128u})
      for (const kv_types& types : all_types(dim)) {
        const cache kv(types, dim, 16, 640);
        const auto q = random_floats(3, std::size_t{query_tile} * 12 * dim);
        std::vector<float> alone(q.size()), together(q.size());
        attention_params p = params_of(kv, q, alone);
        p.rows = p.heads = 1;
        for (std::uint32_t j = 0; j < query_tile; ++j) {
          p.row = j / 3;
          p.head = j % 3;
          p.position = 254 + j / 3;  // rows on both sides of a split
          kernels.attention(p);
        }
        for (const std::uint32_t tile : {1u, 2u, 4u, 5u, 9u, 31u, 32u}) {
          std::fill(together.begin(), together.end(), 0.0f);
          p = params_of(kv, q, together);
          p.heads = 3;
          for (p.row = 0; p.row < query_tile / 3; p.row += tile) {
            p.rows = std::min(tile, query_tile / 3 - p.row);
            p.position = 254 + p.row;
            kernels.attention(p);
          }
          INFO(types.name() << ", dim " << dim << ", tiles of " << tile << " rows");
          CHECK(std::memcmp(alone.data(), together.data(), alone.size() * 4) == 0);
        }
      }
  });
}

TEST_CASE("attention: splits summed apart, in any order and pieces, merge to the same bits",
          "[gpu]") {
  constexpr std::pair<std::uint32_t, std::uint32_t> shapes[] = {{1, 1}, {1, 3}, {4, 3},  {12, 1},
                                                                {5, 2}, {2, 9}, {1, 40}, {25, 3}};
  for_each_isa([&](const kernel_table& kernels) {
    for (const std::uint32_t dim : {48u, 64u, 256u})
      for (const kv_types& types : all_types(dim)) {
        const cache kv(types, dim, 16, 1344);
        const auto q = random_floats(3, std::size_t{query_tile} * 12 * dim);
        for (const std::uint32_t position : {0u, 254u, 511u, 767u, 1300u}) {
          for (const auto& [rows, heads] : shapes) {
            std::vector<float> whole(q.size()), merged(q.size());
            attention_params p = params_of(kv, q, whole);
            p.q_stride = p.out_stride = std::size_t{heads} * dim;
            p.rows = rows;
            p.heads = heads;
            p.position = position;
            kernels.attention(p);
            p.out = merged.data();
            const std::uint32_t splits = splits_of(p);
            for (const std::uint32_t piece : {1u, 2u, 4u}) {
              // What no split has written, nobody may read.
              std::vector<float> sums(split_sums_at(p, splits, 0), std::nanf(""));
              std::fill(merged.begin(), merged.end(), 0.0f);
              for (std::uint32_t end = splits; end > 0;) {
                const std::uint32_t begin = end > piece ? end - piece : 0;
                kernels.attention_splits(p, begin, end, sums.data());
                end = begin;
              }
              kernels.attention_merge(p, sums.data());
              INFO(types.name() << ", dim " << dim << ", position " << position << ", " << rows
                                << " x " << heads << ", pieces of " << piece);
              CHECK(std::memcmp(whole.data(), merged.data(), whole.size() * 4) == 0);
            }
          }
        }
      }
  });
}

TEST_CASE("attention: NaN behind a tile's last query reaches none of its queries", "[gpu]") {
  for_each_isa([](const kernel_table& kernels) {
    for (const kv_types& types : all_types(64)) {
      cache clean(types, 64, 16, 320), dirty(types, 64, 16, 320);
      const auto q = random_floats(3, std::size_t{query_tile} * 12 * 64);
      for (const std::uint32_t rows : {1u, 4u, 32u}) {
        for (const std::uint32_t position : {0u, 230u, 250u}) {
          const std::uint32_t end = position + rows;
          std::copy(clean.memory.begin(), clean.memory.end(), dirty.memory.begin());
          for (std::uint32_t t = end; t < 320; ++t) dirty.spoil(1, t);
          std::vector<float> expected(q.size()), out(q.size());
          attention_params p = params_of(clean, q, expected);
          p.rows = rows;
          p.heads = 3;
          p.position = position;
          kernels.attention(p);
          p.kv = dirty.view;
          p.out = out.data();
          kernels.attention(p);
          INFO(types.name() << ", " << rows << " rows at " << position);
          CHECK(std::memcmp(expected.data(), out.data(), out.size() * 4) == 0);
        }
      }
    }
  });
}

TEST_CASE("attention: NaN in what a query sees makes all of its answer NaN", "[gpu]") {
  for_each_isa([](const kernel_table& kernels) {
    for (const kv_types& types : all_types(64)) {
      cache kv(types, 64, 16, 320);
      const auto q = random_floats(3, std::size_t{query_tile} * 12 * 64);
      kv.spoil(1, 3);
      for (const std::uint32_t rows : {1u, 8u}) {
        std::vector<float> out(q.size());
        attention_params p = params_of(kv, q, out);
        p.rows = rows;
        p.heads = 3;
        p.position = 280;
        kernels.attention(p);
        INFO(types.name() << ", " << rows << " rows");
        for (std::uint32_t d = 0; d < 64; ++d) REQUIRE(std::isnan(out[d]));
      }
    }
  });
}
