// The CPU device on models whose family or head length is not the default model's: a family that
// computes nothing new is one more row, and a head's length is what the file says. The bounds are
// those of weights/weight_types_model_test.cpp, which argues them; a head read at a wrong place
// moves logits by their own size.
#include <catch2/catch.hpp>

#include "gpu/model/architecture.hpp"
#include "tests/gpu/cpu/device_rig.hpp"
#include "tests/gpu/cpu/float_model.hpp"

using namespace troupe;
using namespace troupe::gpu;
using namespace troupe::test;

namespace {

const std::vector<token_id> tokens = {5,  80, 41, 99, 7,  200, 13,  13, 150, 61,
                                      33, 90, 18, 4,  77, 101, 250, 66, 9,   120};

std::vector<float> last_logits(const std::shared_ptr<const loaded_model>& model) {
  const auto count = static_cast<std::uint32_t>(tokens.size());
  cpu_backend device(model, device_options(2, 2));
  logit_record record(device);
  step_batch batch;
  batch.slices.push_back(slice_of(0, tokens, 0, count, blocks_from(0, 2)));
  want_all(batch.slices[0]);
  record.expect(batch);
  run_step(device, std::move(batch));
  return record.at(0, count - 1);
}

}  // namespace

TEST_CASE("cpu device: a head longer or shorter than width / heads gives the plain pass's logits",
          "[gpu]") {
  // 3 heads of 16 are 48 values, which fill no whole block of 32; 4 of 48 are 192, three widths.
  for (const auto& [heads, kv_heads, head_dim] :
       {std::tuple{3u, 1u, 16u}, std::tuple{4u, 2u, 48u}, std::tuple{2u, 1u, 16u}}) {
    for (const std::uint32_t type : {0u, 1u}) {
      INFO(heads << " heads of " << head_dim << ", type " << type);
      const auto model =
          load_tiny({.heads = heads, .kv_heads = kv_heads, .type = type, .head_dim = head_dim});
      REQUIRE(model->config.head_dim == head_dim);
      const auto expected =
          float_model(*model, true).logits(tokens, {static_cast<std::uint32_t>(tokens.size()) - 1});
      CHECK(distance_of(last_logits(model), expected[0]) < 0.002);
    }
  }
  const auto quantized = load_tiny({.type = 8, .head_dim = 32});  // 4 heads of 32 in a width of 64
  const auto expected =
      float_model(*quantized, true).logits(tokens, {static_cast<std::uint32_t>(tokens.size()) - 1});
  CHECK(distance_of(last_logits(quantized), expected[0]) < 0.08);
}

TEST_CASE("cpu device: a family that computes nothing new is served by one more row", "[gpu]") {
  const auto& llama = architectures().front();
  std::vector<tensor_rule> layer(llama.layer_tensors.begin(), llama.layer_tensors.end());
  for (auto& rule : layer)
    if (rule.slot == weight_slot::q) rule.name = "attn_x.weight";
  architecture row = llama;
  row.name = "other";
  row.layer_tensors = layer;

  auto bytes = tiny_llama_bytes();
  for (const auto& [from, to] :
       {std::pair<std::string, std::string>{"llama", "other"}, {"attn_q.weight", "attn_x.weight"}})
    for (auto at = bytes.find(from); at != bytes.npos; at = bytes.find(from, at))
      bytes.replace(at, from.size(), to);
  const temporary_file source(bytes);
  CHECK_THROWS_WITH(load_model(source.path()),
                    Catch::EndsWith("general.architecture: \"other\", supported is \"llama\""));

  auto file = gguf_file::open(source.path());
  auto config = model_config::from_gguf(file, common_abilities, std::span(&row, 1));
  auto vocabulary = tokenizer::from_gguf(file);
  const auto other = std::make_shared<loaded_model>(loaded_model{
      std::move(file), std::move(config), std::move(vocabulary), chat_template::compile("")});
  CHECK(last_logits(other) == last_logits(load_tiny({})));
}
