// Rotary positions near and far, against the plain forward pass (float_model.hpp) with the base of
// the same file. One layer and plain weights, so that the reference can go to position 8,000; wide
// queries, so that attention looks at a few tokens of thousands and a wrong angle shows at once.
// The reference rounds K and V to f16 as the device does; what is left is rounding to f32 of scores
// of about 10 (10^-6) and of an angle's cosine, and a K or V that rounds the other way (2^-11 of
// one of the numbers).
#include <catch2/catch.hpp>
#include <random>

#include "tests/gpu/cpu/device_rig.hpp"
#include "tests/gpu/cpu/float_model.hpp"

using namespace troupe;
using namespace troupe::gpu;
using namespace troupe::test;

namespace {

const std::vector<std::uint32_t> positions = {1, 100, 2000, 8000};

std::shared_ptr<const loaded_model> model_of(float base) {
  tiny_llama shape;
  shape.layers = 1;
  shape.context = 8192;
  shape.type = 0;
  shape.rope_base = base;
  shape.query_spread = 8.0f;
  return load_tiny(shape);
}

std::vector<token_id> tokens_of(const loaded_model& model) {
  std::mt19937_64 random(3);
  std::vector<token_id> tokens(positions.back() + 1);
  for (token_id& token : tokens) token = static_cast<token_id>(random() % model.config.vocab);
  return tokens;
}

std::vector<std::vector<float>> device_logits(const std::shared_ptr<const loaded_model>& model,
                                              const std::vector<token_id>& tokens) {
  const auto count = static_cast<std::uint32_t>(tokens.size());
  cpu_backend device(model, device_options(2, count / 16 + 1));
  logit_record record(device);
  step_batch batch;
  batch.slices.push_back(slice_of(0, tokens, 0, count, blocks_from(0, count / 16 + 1)));
  batch.slices[0].score_targets.assign(count, -1);
  for (const std::uint32_t p : positions) batch.slices[0].score_targets[p] = 0;
  record.expect(batch);
  run_step(device, std::move(batch));
  std::vector<std::vector<float>> out;
  for (const std::uint32_t p : positions) out.push_back(record.at(0, p));
  return out;
}

}  // namespace

TEST_CASE("C215 rope: logits at positions 1 to 8,000 are those of the file's own rotary base",
          "[gpu]") {
  std::vector<std::vector<std::vector<float>>> found;
  for (const float base : {10000.0f, 500000.0f}) {
    const auto model = model_of(base);
    REQUIRE(model->config.rope_base == base);
    const auto tokens = tokens_of(*model);
    const auto expected = float_model(*model, true).logits(tokens, positions);
    found.push_back(device_logits(model, tokens));
    for (std::size_t i = 0; i < positions.size(); ++i) {
      INFO("base " << base << ", position " << positions[i]);
      CHECK(distance_of(found.back()[i], expected[i]) < 1e-4);
    }
  }
  for (std::size_t i = 0; i < positions.size(); ++i) {
    const float_model::row other(found[1][i].begin(), found[1][i].end());
    INFO("position " << positions[i]);
    CHECK(distance_of(found[0][i], other) > 0.01);
  }
}
