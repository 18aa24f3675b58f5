// Whole small models of each weight type on the device, against the plain forward pass of
// float_model.hpp on the same weights, at the ends of nine short sequences.
//
// Against exact arithmetic the device differs by its number formats: K and V in f16 and, with
// quantized weights, activations in 8 bits. For 32 numbers of spread s, whose largest is about 2.4
// s, that is an error of 2.4 s / 127 / sqrt(12) = 0.55 % of s in every number (more behind
// silu(gate) * up, whose largest numbers stand out), made anew in front of each of the 15 products
// on the way: sqrt(15) * 0.55 % = 2 %, and up to twice that is seen. The bound is 8 %; a weight
// that is read wrongly moves logits by about their own size.
//
// With the same formats in the reference, only rounding to f32 is left, about 10^-6, unless it
// takes a number across the middle between two codes, which happens in a few of the sequences and
// then costs a code's worth. So the middle one of the nine is compared, with 10^-4: that would see
// a single sub-block scale that is off by one.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "tests/gpu/cpu/device_rig.hpp"
#include "tests/gpu/cpu/float_model.hpp"

using namespace troupe;
using namespace troupe::gpu;
using namespace troupe::test;

namespace {

constexpr std::uint32_t sequences = 9, length = 4;

using prompts = std::vector<std::vector<token_id>>;

prompts random_prompts(std::uint32_t vocab) {
  std::mt19937_64 random(11);
  prompts out(sequences, std::vector<token_id>(length));
  for (auto& tokens : out) {
    for (token_id& token : tokens) token = static_cast<token_id>(random() % vocab);
  }
  return out;
}

/// The logits behind each prompt, of the device and of the plain forward pass.
std::vector<std::vector<float>> found_logits(const std::shared_ptr<const loaded_model>& model,
                                             const std::string& isa, const prompts& tokens) {
  cpu_backend device(model, device_options(2, sequences, isa));
  logit_record record(device);
  step_batch batch;
  for (std::uint32_t i = 0; i < sequences; ++i) {
    batch.slices.push_back(slice_of(i, tokens[i], 0, length, {i}));
    batch.slices[i].sample = true;
  }
  record.expect(batch);
  run_step(device, std::move(batch));
  std::vector<std::vector<float>> out;
  for (std::uint32_t i = 0; i < sequences; ++i) out.push_back(record.at(i, length - 1));
  return out;
}

std::vector<float_model::row> plain_logits(const float_model& model, const prompts& tokens) {
  std::vector<float_model::row> out;
  for (const auto& prompt : tokens) out.push_back(model.logits(prompt, {length - 1})[0]);
  return out;
}

/// Smallest first.
std::vector<double> distances(const std::vector<std::vector<float>>& found,
                              const std::vector<float_model::row>& expected) {
  std::vector<double> out;
  for (std::size_t i = 0; i < found.size(); ++i) out.push_back(distance_of(found[i], expected[i]));
  std::sort(out.begin(), out.end());
  return out;
}

tiny_llama shape_of(std::uint32_t type, bool tied) {
  tiny_llama shape;
  shape.width = 256;
  shape.ffn_width = 512;
  shape.type = type;
  shape.tied = tied;
  return shape;
}

void check(const tiny_llama& shape, double bound) {
  const auto model = load_tiny(shape);
  const prompts tokens = random_prompts(model->config.vocab);
  const auto exact = plain_logits(float_model(*model), tokens);
  const auto rounded = plain_logits(float_model(*model, true), tokens);
  for (const kernel_table* kernels : supported_kernels()) {
    INFO(kernels->isa);
    const auto found = found_logits(model, kernels->isa, tokens);
    const auto off = distances(found, exact);
    CHECK(off.back() < bound);
    CHECK(off.front() > 0.0);
    CHECK(distances(found, rounded)[sequences / 2] < 1e-4);
  }
}

}  // namespace

TEST_CASE("cpu device: models of every weight type agree with the plain forward pass", "[gpu]") {
  for (const tensor_type type : loadable_types()) {
    const bool plain = block_elements(type) == 1;
    for (const bool tied : {true, false}) {
      INFO(name_of(type) << (tied ? ", tied" : ", head of its own"));
      check(shape_of(static_cast<std::uint32_t>(type), tied), plain ? 0.002 : 0.08);
    }
  }
}

TEST_CASE("cpu device: models of mixed weight types agree with the plain forward pass", "[gpu]") {
  for (const std::uint32_t other : {14u, 8u, 6u, 30u}) {
    auto mixed = shape_of(12, true);
    mixed.other_type = other;
    INFO("Q4_K with " << name_of(static_cast<tensor_type>(other)));
    check(mixed, 0.08);
  }
}
