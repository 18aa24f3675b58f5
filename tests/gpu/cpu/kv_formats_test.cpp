// Every type of the KV cache under the promise that independence_test.cpp holds for f16: the same
// bits however a sequence is cut into chunks, whoever runs beside it, and when its blocks were
// parked, shared or forked. What the types cost in quality: reference_test.cpp.
#include <catch2/catch.hpp>
#include <cstring>
#include <random>

#include "config/bytes/checksum.hpp"
#include "tests/gpu/cpu/device_rig.hpp"

using namespace troupe;
using namespace troupe::gpu;
using namespace troupe::test;

namespace {

struct format_names {
  std::string k, v, precise_layers = {};
};

const format_names formats[] = {
    {"bf16", "bf16"}, {"int8", "int8"}, {"fp8_e4m3", "fp8_e4m3"}, {"fp8_e5m2", "fp8_e5m2"},
    {"int4", "int4"}, {"int8", "int4"}, {"int4", "f16", "1,0"},   {"int8", "int4", "1,1"}};

std::string words(const format_names& f) {
  return f.k + "/" + f.v + (f.precise_layers.empty() ? "" : ", precise " + f.precise_layers);
}

backend_options options_of(const format_names& f, std::uint32_t threads, std::uint32_t blocks,
                           const std::string& isa, std::uint32_t block_size = 16) {
  auto out = device_options(threads, blocks, isa, block_size);
  out.kv_cache_dtype_k = f.k;
  out.kv_cache_dtype_v = f.v;
  out.kv_cache_precise_layers = f.precise_layers;
  return out;
}

std::shared_ptr<const loaded_model> small_model() {
  tiny_llama shape;
  shape.layers = 3;
  shape.width = 128;  // heads of 32
  shape.context = 512;
  shape.type = 3;
  return load_tiny(shape);
}

constexpr std::uint32_t length = 290;  // two splits of attention

std::vector<token_id> text(std::uint64_t seed, std::uint32_t vocab, std::uint32_t count = length) {
  std::mt19937_64 random(seed);
  std::vector<token_id> tokens(count);
  for (token_id& token : tokens) token = static_cast<token_id>(random() % vocab);
  return tokens;
}

/// A device and all the logits it gave, by key and position.
struct recorded {
  recorded(const std::shared_ptr<const loaded_model>& model, const backend_options& options)
      : device(model, options), record(device) {}

  void run(std::vector<sequence_slice> slices) {
    step_batch batch;
    batch.slices = std::move(slices);
    for (auto& slice : batch.slices) want_all(slice);
    record.expect(batch);
    run_step(device, std::move(batch));
  }

  cpu_backend device;
  logit_record record;
};

using logit_rows = std::vector<std::vector<float>>;

logit_rows rows_of(const recorded& from, std::uint64_t key, std::uint32_t begin,
                   std::uint32_t end) {
  logit_rows out;
  for (std::uint32_t p = begin; p < end; ++p) out.push_back(from.record.at(key, p));
  return out;
}

/// The first row that differs in a bit, or -1.
int first_difference(const logit_rows& a, const logit_rows& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::memcmp(a[i].data(), b[i].data(), a[i].size() * sizeof(float)) != 0)
      return static_cast<int>(i);
  return -1;
}

logit_rows alone(const std::shared_ptr<const loaded_model>& model, const format_names& f,
                 const std::string& isa, const std::vector<token_id>& tokens) {
  const auto count = static_cast<std::uint32_t>(tokens.size());
  recorded whole(model, options_of(f, 1, 20, isa));
  whole.run({slice_of(0, tokens, 0, count, blocks_from(0, 19))});
  return rows_of(whole, 0, 0, count);
}

/// Each format on each instruction set.
template <class Body>
void for_each_format(Body body) {
  const auto model = small_model();
  for (const kernel_table* kernels : supported_kernels()) {
    for (const format_names& f : formats) {
      INFO(kernels->isa << ", " << words(f));
      body(model, f, std::string(kernels->isa));
    }
  }
}

}  // namespace

TEST_CASE(
    "kv formats: a sequence's logits are the same bits in every chunking, company, thread count, "
    "block table and block size",
    "[gpu][independence]") {
  struct way {
    std::uint32_t threads, chunk, company, block_size;
  };
  for_each_format([](const auto& model, const format_names& f, const std::string& isa) {
    const auto tokens = text(42, model->config.vocab);
    const auto expected = alone(model, f, isa, tokens);
    for (const way& how : {way{1, 1, 0, 16}, way{2, 7, 3, 16}, way{3, 64, 9, 32},
                           way{2, length, 1, 32}, way{8, 33, 0, 16}}) {
      recorded other(model, options_of(f, how.threads, 40, isa, how.block_size));
      const std::vector<std::uint32_t> blocks = [&] {
        auto table = blocks_from(0, 19);
        std::reverse(table.begin(), table.end());
        return table;
      }();
      for (std::uint32_t at = 0, round = 0; at < length; at += how.chunk, ++round) {
        std::vector<sequence_slice> slices;
        for (std::uint32_t i = 0; i < how.company; ++i) {
          const std::uint32_t count = 1 + (i + round) % 5;
          const auto beside = text(1000 + i, model->config.vocab, count);
          slices.push_back(slice_of(100 + i, beside, 0, count, {20 + i}));
        }
        slices.insert(slices.begin() + how.company / 2,
                      slice_of(0, tokens, at, std::min(how.chunk, length - at), blocks));
        other.run(std::move(slices));
      }
      INFO(how.threads << " threads, chunks of " << how.chunk << ", beside " << how.company
                       << ", blocks of " << how.block_size);
      CHECK(first_difference(expected, rows_of(other, 0, 0, length)) == -1);
    }
  });
}

TEST_CASE("kv formats: parked and brought back, shared as a prefix and forked: the same bits",
          "[gpu][independence]") {
  for_each_format([](const auto& model, const format_names& f, const std::string& isa) {
    const auto vocab = model->config.vocab;
    const auto tokens = text(42, vocab, 80);
    auto other = text(43, vocab, 80);
    std::copy_n(tokens.begin(), 37, other.begin());  // the same prompt, then another text
    const auto expected = alone(model, f, isa, tokens),
               expected_other = alone(model, f, isa, other);
    recorded device(model, options_of(f, 2, 24, isa));
    const auto check = [&](std::uint64_t key, std::uint32_t begin, std::uint32_t end,
                           const logit_rows& whole) {
      const logit_rows part(whole.begin() + begin, whole.begin() + end);
      CHECK(first_difference(part, rows_of(device, key, begin, end)) == -1);
    };
    device.run({slice_of(0, tokens, 0, 41, {0, 1, 2})});

    // Parked, the blocks given to another meanwhile, and brought back into others.
    const auto size = device.device.info().kv.block_bytes(0);
    std::vector<std::byte> bytes(3 * size), again(3 * size);
    REQUIRE(copy_now(device.device,
                     {block_copy::direction::to_host, {0, 1, 2}, cut_into_blocks(bytes, size)}));
    device.run({slice_of(1, other, 0, 48, {0, 1, 2})});
    REQUIRE(copy_now(device.device,
                     {block_copy::direction::to_device, {9, 7, 8}, cut_into_blocks(bytes, size)}));
    REQUIRE(copy_now(device.device,
                     {block_copy::direction::to_host, {9, 7, 8}, cut_into_blocks(again, size)}));
    CHECK(bytes == again);
    CHECK(checksum64(bytes) == checksum64(again));
    device.run({slice_of(0, tokens, 41, 20, {9, 7, 8, 10})});
    check(0, 41, 61, expected);

    // The first two blocks as a cached prefix of another sequence.
    device.run({slice_of(2, other, 32, 48, {9, 7, 11, 12, 13})});
    check(2, 32, 80, expected_other);

    // A fork within the third block, while its parent goes on.
    device.run({slice_of(3, tokens, 0, 37, {14, 15, 16})});
    auto child = slice_of(4, other, 37, 20, {14, 15, 17, 18});
    child.copies = {{16, 17}};
    device.run({slice_of(3, tokens, 37, 9, {14, 15, 16}), std::move(child)});
    check(3, 37, 46, expected);
    check(4, 37, 57, expected_other);
  });
}

TEST_CASE("kv formats: a copy of a size that is not the format's is refused", "[gpu]") {
  for_each_format([](const auto& model, const format_names& f, const std::string& isa) {
    cpu_backend device(model, options_of(f, 1, 2, isa));
    const auto& kv = device.info().kv;
    CHECK(kv.block_bytes(0) == kv.token_bytes() * 16);
    CHECK(kv.token_bytes() < 3 * 2 * 2 * 32 * 2 + (f.k == "bf16" ? 1u : 0u));  // f16's
    std::vector<std::byte> bytes(kv.block_bytes(0) + 1);
    CHECK_THROWS_AS(device.copy({block_copy::direction::to_host, {0}, {bytes}}, [](bool) {}),
                    batch_error);
  });
}

TEST_CASE("kv formats: what a device does not store is refused by name, with the list", "[gpu]") {
  using Catch::Matchers::Contains;
  const auto model = load_tiny({});  // heads of 16
  const auto refused = [&](const std::string& both, const std::string& k, const std::string& v,
                           const std::string& precise) {
    auto options = device_options(1, 2);
    options.kv_cache_dtype = both;
    options.kv_cache_dtype_k = k;
    options.kv_cache_dtype_v = v;
    options.kv_cache_precise_layers = precise;
    cpu_backend device(model, options);
  };
  const std::string list =
      "is not one of auto, f16, bf16, int8, fp8_e4m3, fp8_e5m2, int4, which the device cpu stores";
  CHECK_THROWS_WITH(refused("q8", "auto", "auto", ""), "--kv-cache-dtype: \"q8\" " + list);
  CHECK_THROWS_WITH(refused("auto", "f32", "auto", ""), "--kv-cache-dtype-k: \"f32\" " + list);
  CHECK_THROWS_WITH(refused("int8", "auto", "", ""), "--kv-cache-dtype-v: \"\" " + list);
  CHECK_THROWS_WITH(refused("int8", "auto", "int4", ""),
                    "--kv-cache-dtype-v: int4 needs a head dimension that is a multiple of 32, the "
                    "model's is 16");
  CHECK_THROWS_WITH(refused("int8", "auto", "auto", "2,1"),
                    "--kv-cache-precise-layers: 2,1 are 3 layers, the model has 2");
  CHECK_NOTHROW(refused("int8", "f16", "fp8_e5m2", "1,1"));
}

TEST_CASE("kv formats: each side's option overrides the common one; auto stays f16", "[gpu]") {
  const auto model = small_model();
  const auto types = [&](const std::string& both, const std::string& k, const std::string& v) {
    auto options = device_options(1, 2);
    options.kv_cache_dtype = both;
    options.kv_cache_dtype_k = k;
    options.kv_cache_dtype_v = v;
    return cpu_backend(model, options).info().kv.types_name();
  };
  CHECK(types("auto", "auto", "auto") == "f16");
  CHECK(types("int8", "auto", "auto") == "int8");
  CHECK(types("int8", "auto", "int4") == "int8/int4");
  CHECK(types("int4", "f16", "auto") == "f16/int4");
  CHECK(types("auto", "fp8_e4m3", "auto") == "fp8_e4m3/f16");
  CHECK(types("auto", "int8", "bf16") == "int8/bf16");
}
