#include "tools/cli/startup_report.hpp"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "actors/runtime/runtime_limits.hpp"
#include "tests/support/temporary_file.hpp"
#include "tests/support/tiny_llama.hpp"

using namespace troupe;

namespace {

struct fixture {
  fixture(std::uint32_t blocks, std::uint32_t block_size, std::uint32_t sequences) {
    config.model = file.path();
    config.max_num_seqs = sequences;
    const auto& shape = model->config;
    device = {"cpu", "portable", 2,
              gpu::one_group_format(gpu::kv_f16, shape.layers, shape.kv_heads, shape.head_dim,
                                    block_size, blocks),
              1000};
    device.weights.seconds = 0.25;
    limits = make_limits(config, *model, device);
  }
  startup_facts facts() const { return {config, *model, device, limits, 0.5, 0.125}; }

  test::temporary_file file{test::tiny_llama_bytes()};
  std::shared_ptr<const gpu::loaded_model> model = gpu::load_model(file.path());
  runtime_config config;
  gpu::device_info device;
  core::scheduler_limits limits;
};

}  // namespace

TEST_CASE(
    "startup_report: tells bytes a token with the formula, blocks, tokens and effective context",
    "[config]") {
  const fixture f(8, 16, 4);  // 2 layers x 2 kv heads x head dim 16: 2*2*2*16*2 = 256 bytes a token
  const auto words = startup_words(f.facts());
  CHECK(words.find("256 bytes a token = 2 x 2 layers x 2 kv heads x 16 head dim x 2 bytes") !=
        std::string::npos);
  CHECK(words.find("8 blocks of 16 tokens = 128 tokens") != std::string::npos);
  CHECK(words.find("128 tokens effective; 1.0 sequences") != std::string::npos);
  const auto json = nlohmann::json::parse(startup_json(f.facts()));
  CHECK(json["event"] == "starting");
  CHECK(json["kv_bytes_per_token"] == 256);
  CHECK(json["effective_context"] == 128);
  CHECK(json["end_tokens"] == "0 2");
  CHECK(json["load_seconds"] == 0.5);
  CHECK(json["model_seconds"] == 0.125);
  CHECK(json["weight_seconds"] == 0.25);
}

TEST_CASE("startup_report: warns when the block tables exceed a tenth of the pool", "[config]") {
  CHECK(startup_words(fixture(8, 16, 4).facts()).find("WARNING") == std::string::npos);
  const fixture crowded(1, 16, 4096);  // 4,096 tables of one entry: 16 KiB beside a pool of 4 KiB
  CHECK(block_table_share(crowded.facts()) == Approx(4.0));
  CHECK(startup_words(crowded.facts()).find("WARNING") != std::string::npos);
}

TEST_CASE(
    "startup_report: a context beyond the model's is a visible warning with the limit in force "
    "(C217)",
    "[config]") {
  fixture f(64, 16, 4);  // the model was trained for 256 tokens
  f.config.max_model_len = 256;
  CHECK(context_warning(f.facts()).empty());
  CHECK(startup_words(f.facts()).find("WARNING") == std::string::npos);
  f.config.max_model_len = 512;
  f.limits = make_limits(f.config, *f.model, f.device);
  CHECK(context_warning(f.facts()) ==
        "--max-model-len 512 is beyond the 256 tokens the model was trained for; 256 are in force");
  CHECK(startup_words(f.facts()).find("WARNING: --max-model-len 512 is beyond") !=
        std::string::npos);
  const auto json = nlohmann::json::parse(startup_json(f.facts()));
  CHECK(json["trained_context"] == 256);
  CHECK(json["effective_context"] == 256);
}
