#include "tools/cli/estimate.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "gpu/model/gguf/gguf_types.hpp"
#include "tests/support/temporary_file.hpp"
#include "tests/support/tiny_llama.hpp"

using namespace troupe;

namespace {

early_exit run(std::vector<std::string> words, bool on_terminal) {
  std::vector<const char*> argv{"troupe", "estimate"};
  for (const auto& word : words) argv.push_back(word.c_str());
  return std::get<early_exit>(
      parse_options(static_cast<int>(argv.size()), argv.data(), {}, on_terminal).what);
}

nlohmann::json numbers(std::vector<std::string> words) {
  const auto answer = run(std::move(words), false);
  INFO(answer.text);
  REQUIRE(answer.code == 0);
  return nlohmann::json::parse(answer.text);
}

std::string problem(std::vector<std::string> words) {
  const auto answer = run(std::move(words), true);
  CHECK(answer.code == 2);
  return answer.text;
}

const std::vector<std::string> seven_billion{"--layers", "32", "--width", "4096", "--heads", "32"};

std::vector<std::string> plus(std::vector<std::string> words,
                              const std::vector<std::string>& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

TEST_CASE("F005 estimate: one part of a split model is refused, its sizes are not the model's",
          "[config]") {
  test::gguf_writer part = test::tiny_llama_metadata({});
  part.raw("split.no", 2, test::number_bytes(std::uint16_t{0}))
      .raw("split.count", 2, test::number_bytes(std::uint16_t{3}));
  const test::temporary_file file{part.bytes()};
  CHECK(problem({file.path()}).find("this file is part 1 of 3 of a split model") !=
        std::string::npos);
}

TEST_CASE("estimate: 32 layers of width 4096 take 512 KiB a token at 16 bits", "[config]") {
  const auto answer = numbers(seven_billion);
  CHECK(answer["kv_bytes_per_token"] == 512 * 1024);
  CHECK(answer["kv_bytes_per_sequence"] == 4096ull * 512 * 1024);
  CHECK(answer["pool_blocks"] == 32 * 256);
  CHECK(answer["pool_bytes"] == 32 * 4096ull * 512 * 1024);
  CHECK(answer["block_table_bytes"] == 32 * 256 * 4);
  CHECK(answer.count("weight_bytes") == 0);
  CHECK(
      run(seven_billion, true)
          .text.find(
              "kv a token  512 KiB = 2 x 32 layers x 32 kv heads x 128 head dim x 2 bytes (f16)") !=
      std::string::npos);
}

TEST_CASE(
    "estimate: grouped heads, head dimension, cache type and block size change the bytes as the "
    "formula says",
    "[config]") {
  CHECK(numbers(plus(seven_billion, {"--kv-heads", "8"}))["kv_bytes_per_token"] == 128 * 1024);
  CHECK(numbers(plus(seven_billion, {"--head-dim", "64"}))["kv_bytes_per_token"] == 256 * 1024);
  CHECK(numbers(plus(seven_billion, {"--kv-cache-dtype", "f32"}))["kv_bytes_per_token"] ==
        1024 * 1024);
  CHECK(numbers(plus(seven_billion, {"--kv-cache-dtype", "int8"}))["kv_bytes_per_token"] ==
        32 * 32 * 2 * (128 + 4));
  const auto rounded = numbers(
      plus(seven_billion, {"--max-model-len", "33", "--block-size", "32", "--max-num-seqs", "3"}));
  CHECK(rounded["kv_bytes_per_sequence"] == 64 * 512 * 1024);
  CHECK(rounded["pool_blocks"] == 6);
}

TEST_CASE("estimate: each type of the cache, K and V apart, and layers that stay f16", "[config]") {
  const auto bytes = [](const std::vector<std::string>& more) {
    return numbers(plus(seven_billion, more))["kv_bytes_per_token"].get<std::uint64_t>();
  };
  const std::uint64_t heads = 32 * 32, f16 = 2 * 128, int8 = 128 + 4, int4 = 64 + 4;
  CHECK(bytes({"--kv-cache-dtype", "auto"}) == heads * 2 * f16);
  CHECK(bytes({"--kv-cache-dtype", "bf16"}) == heads * 2 * f16);
  CHECK(bytes({"--kv-cache-dtype", "fp8_e4m3"}) == heads * 2 * int8);
  CHECK(bytes({"--kv-cache-dtype", "fp8_e5m2"}) == heads * 2 * int8);
  CHECK(bytes({"--kv-cache-dtype", "int4"}) == heads * 2 * int4);
  CHECK(bytes({"--kv-cache-dtype", "int8", "--kv-cache-dtype-v", "int4"}) == heads * (int8 + int4));
  CHECK(bytes({"--kv-cache-dtype-k", "int8"}) == heads * (int8 + f16));
  const auto mixed =
      plus(seven_billion, {"--kv-cache-dtype", "int4", "--kv-cache-precise-layers", "2,1"});
  CHECK(bytes({"--kv-cache-dtype", "int4", "--kv-cache-precise-layers", "2,1"}) ==
        29 * 32 * 2 * int4 + 3 * 32 * 2 * f16);
  CHECK(numbers(mixed)["kv_cache_precise_layers"] == 3);
  CHECK(run(mixed, true)
            .text.find("29 layers x 32 kv heads x (68 + 68) bytes + 3 layers x 32 kv "
                       "heads x (256 + 256) bytes (int4)") != std::string::npos);
  CHECK(problem(plus(seven_billion, {"--kv-cache-precise-layers", "30,3"})) ==
        "troupe: --kv-cache-precise-layers: 30,3 are 33 layers, the model has 32\n");
  CHECK(problem(plus(seven_billion, {"--kv-cache-dtype-v", "q4"}))
            .find("--kv-cache-dtype-v: 'q4' is not one of auto, f16,") != std::string::npos);
}

TEST_CASE("estimate: the weights of a 7B are 6.7 thousand million parameters", "[config]") {
  const auto given = plus(seven_billion, {"--vocab", "32000", "--ffn", "11008"});
  const std::uint64_t matrices =
      32ull * (4 * 4096ull * 4096 + 3 * 4096ull * 11008) + 2 * 32000ull * 4096;
  const std::uint64_t norms = (2 * 32 + 1) * 4096ull;
  CHECK(run(given, true).text.find("repacked from f16: 6738415616 parameters") !=
        std::string::npos);
  CHECK(numbers(given)["weight_bytes"] == 2 * matrices + 4 * norms);
  CHECK(numbers(plus(given, {"--weight-type", "q4_0"}))["weight_bytes"] ==
        matrices / 32 * 18 + 4 * norms);
  // As panels its codes stay 4 bits and its scales become 32: 6 bits a weight, not the file's 4.5.
  CHECK(numbers(plus(given, {"--weight-type", "q4_k"}))["weight_bytes"] ==
        matrices / 8 * 6 + 4 * norms);
  // Every type that a model file may have, also those that share another one's panels.
  CHECK(numbers(plus(given, {"--weight-type", "q5_0"}))["weight_bytes"] ==
        matrices / 32 * 34 + 4 * norms);
  for (const auto type : gpu::loadable_types()) {
    CHECK(numbers(plus(given, {"--weight-type", gpu::name_of(type)}))["weight_bytes"] >
          matrices / 2);
  }
  const auto all = numbers(given);
  CHECK(all["total_bytes"] == all["weight_bytes"].get<std::uint64_t>() +
                                  all["pool_bytes"].get<std::uint64_t>() +
                                  all["block_table_bytes"].get<std::uint64_t>() +
                                  all["working_bytes"].get<std::uint64_t>());
  CHECK(all["fits"] == (all["total_bytes"] <= all["available_bytes"]));
}

TEST_CASE("estimate: a file's numbers come from its metadata and its tensors", "[config]") {
  const test::temporary_file file{
      test::tiny_llama_bytes()};  // 2 layers, 2 kv heads of 16, context 256
  const auto answer = numbers({file.path()});
  CHECK(answer["model"] == "tiny");
  CHECK(answer["kv_bytes_per_token"] == 256);
  CHECK(answer["context"] == 256);
  CHECK(answer["file_bytes"] == test::tiny_llama_bytes().size());
  CHECK(answer["weight_bytes"].get<std::uint64_t>() > 0);
  CHECK(numbers({file.path(), "--max-model-len", "100"})["context"] == 100);
  CHECK(numbers({file.path(), "--max-model-len", "9000"})["context"] == 256);
}

TEST_CASE("estimate: what does not fit says how many tokens would", "[config]") {
  memory_estimate e;
  e.layers = 32;
  e.width = 4096;
  e.heads = e.kv_heads = 32;
  e.head_dim = 128;
  e.context = 4096;
  e.sequences = 1;
  e.block_size = 16;
  REQUIRE(e.complete());
  CHECK(estimate_words(e, e.total_bytes).find("it fits\n") != std::string::npos);
  const auto words = estimate_words(e, e.total_bytes - 1);
  CHECK(words.find("it does not fit\n") != std::string::npos);
  CHECK(words.find("holds 4080 tokens\n") != std::string::npos);
  CHECK(estimate_words(e, 0).find("holds 0 tokens\n") != std::string::npos);
}

TEST_CASE("estimate: every wrong input is one line with its range, all at once", "[config]") {
  CHECK(problem({}).find("--layers: missing") != std::string::npos);
  CHECK(problem({"--layers", "x", "--width", "0", "--heads", "-1", "--block-size", "24",
                 "--kv-cache-dtype", "q1"}) ==
        "troupe: --block-size: 24 is not 16 or 32\ntroupe: --layers: 'x' is not a whole number, "
        "1..1024\n"
        "troupe: --width: 0 is outside 1..65536\ntroupe: --heads: '-1' is not a whole number, "
        "1..1024\n"
        "troupe: --kv-cache-dtype: 'q1' is not one of auto, f16, bf16, f32, int8, fp8_e4m3, "
        "fp8_e5m2, int4\n");
  CHECK(problem(plus(seven_billion, {"--kv-heads", "5"})) ==
        "troupe: --kv-heads: 5 does not divide --heads 32\n");
  CHECK(problem({"--layers", "1", "--width", "100", "--heads", "3"})
            .find("does not divide --width 100") != std::string::npos);
  CHECK(problem(plus(seven_billion, {"--weight-type", "q9"})).find("--weight-type: 'q9'") !=
        std::string::npos);
  CHECK(problem(plus(seven_billion, {"--layers"})) == "troupe: --layers: a value is missing\n");
  CHECK(problem({"m.gguf", "--layers", "3"}).find("--layers: not beside MODEL") !=
        std::string::npos);
  CHECK(problem({"/nowhere.gguf"}) ==
        "troupe: /nowhere.gguf: cannot open: No such file or directory\n");
  CHECK(problem({"--layers", "1024", "--width", "65536", "--heads", "1024", "--head-dim", "4096",
                 "--max-model-len", "16777216", "--max-num-seqs", "4096"}) ==
        "troupe: the bytes of this many tokens do not fit 64 bits\n");
}
