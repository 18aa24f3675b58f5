#include "gpu/model/architecture.hpp"

#include <catch2/catch.hpp>
#include <set>

#include "gpu/make_backend.hpp"
#include "tests/support/temporary_file.hpp"
#include "tests/support/tiny_llama.hpp"

using namespace troupe::gpu;
using namespace troupe::test;

namespace {

/// A tiny model's bytes as those of another family: every "llama" in keys and architecture becomes
/// a name of the same length, and the tensors stay.
std::string renamed(std::string bytes, const std::string& from, const std::string& to) {
  REQUIRE(from.size() == to.size());
  for (auto at = bytes.find(from); at != bytes.npos; at = bytes.find(from, at + to.size()))
    bytes.replace(at, from.size(), to);
  return bytes;
}

std::string refusal(const std::string& bytes, const ability_set& computed = common_abilities) {
  const temporary_file source(bytes);
  try {
    model_config::from_gguf(gguf_file::open(source.path()), computed, architectures());
  } catch (const model_error& error) {
    return std::string(error.what()).substr(source.path().size() + 2);
  }
  return "no error";
}

std::string named(const char* architecture) {
  gguf_writer writer;
  return writer.text("general.architecture", architecture).bytes();
}

ability_set everything() {
  ability_set out;
  for (unsigned i = 0; i < static_cast<unsigned>(ability::count); ++i)
    out.add(static_cast<ability>(i));
  return out;
}

std::string shape_words(const model_tensor& tensor) {
  std::string out = tensor.name;
  for (const auto extent : tensor.shape) out += " " + std::to_string(extent);
  return out;
}

}  // namespace

TEST_CASE("architecture: Llama is the first row, and its tensors are those of the format") {
  CHECK(architectures().front().name == "llama");
  const temporary_file source(tiny_llama_bytes({.head_dim = 32}));
  const auto config = model_config::from_gguf(gguf_file::open(source.path()));
  std::vector<std::string> found;
  for (const auto& tensor : layer_tensors(config, 1)) found.push_back(shape_words(tensor));
  CHECK(found == std::vector<std::string>{"blk.1.attn_norm.weight 64", "blk.1.attn_q.weight 64 128",
                                          "blk.1.attn_k.weight 64 64", "blk.1.attn_v.weight 64 64",
                                          "blk.1.attn_output.weight 128 64",
                                          "blk.1.ffn_norm.weight 64", "blk.1.ffn_gate.weight 64 96",
                                          "blk.1.ffn_up.weight 64 96",
                                          "blk.1.ffn_down.weight 96 64"});
  CHECK(all_tensors(config).size() == 3 + 2 * 9);
}

TEST_CASE("architecture: no row has a name, a tensor or a slot twice") {
  std::set<std::string_view> families;
  for (const auto& row : architectures()) {
    INFO(row.name);
    CHECK(families.insert(row.name).second);
    CHECK(find_architecture(row.name) == &row);
    std::set<std::string_view> names;
    std::set<weight_slot> slots;
    for (const auto& rules : {row.model_tensors, row.layer_tensors}) {
      for (const auto& rule : rules) {
        CHECK(names.insert(rule.name).second);
        CHECK(slots.insert(rule.slot).second);
      }
    }
  }
}

TEST_CASE("architecture: a family is refused by what this device lacks for it") {
  CHECK(
      refusal(named("qwen2")) ==
      "architecture \"qwen2\" needs rotary positions on halves of a head (NEOX) and biases, which "
      "this device lacks");
  CHECK(refusal(named("qwen3")) ==
        "architecture \"qwen3\" needs rotary positions on halves of a head (NEOX) and a norm on "
        "each head of q and k, which this device lacks");
  CHECK(refusal(named("gemma")) ==
        "architecture \"gemma\" needs rotary positions on halves of a head (NEOX), a GELU gate and "
        "scaled embeddings, which this device lacks");
  CHECK(refusal(named("gpt2")) ==
        "architecture \"gpt2\" needs layer norms, learned positions, GELU without a gate, biases "
        "and q, k and v in one matrix, which this device lacks");
  CHECK(refusal(named("mamba")) == "general.architecture: \"mamba\", supported is \"llama\"");
}

TEST_CASE("architecture: a device that computes what a family needs gets its tensors checked") {
  const auto qwen2 = renamed(tiny_llama_bytes(), "llama", "qwen2");
  CHECK(refusal(qwen2, everything()) ==
        "tensor \"blk.0.attn_q.bias\": missing, expected shape [64]");
  auto writer = tiny_llama_metadata({});
  add_tiny_llama_tensors(writer, {});
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    for (const auto& [name, length] : {std::pair{"attn_q.bias", 64u}, std::pair{"attn_k.bias", 32u},
                                       std::pair{"attn_v.bias", 32u}})
      writer.tensor(layer + name, {length}, 0, std::string(4 * length, '\0'));
  }
  const auto complete = renamed(writer.bytes(), "llama", "qwen2");
  CHECK(refusal(complete, everything()) == "no error");
  CHECK(refusal(complete, ability_set(common_abilities).add(ability::rope_halves)) ==
        "architecture \"qwen2\" needs biases, which this device lacks");
}

TEST_CASE("architecture: the length of a head comes from the file") {
  const temporary_file source(tiny_llama_bytes({.head_dim = 48}));
  const auto config = model_config::from_gguf(gguf_file::open(source.path()));
  CHECK(config.width == 64);
  CHECK(config.heads == 4);
  CHECK(config.head_dim == 48);
}

TEST_CASE("architecture: lengths of a head that this device cannot compute are refused by name") {
  const auto with = [](const char* key, std::uint32_t value, bool given = true) {
    gguf_writer writer;
    writer.text("general.architecture", "llama").u32("llama.block_count", 1);
    writer.u32("llama.embedding_length", 64).u32("llama.feed_forward_length", 64);
    writer.u32("llama.context_length", 64).u32("llama.attention.head_count", 4);
    if (given) writer.u32("llama.attention.key_length", 16);
    return refusal(writer.u32(key, value).bytes());
  };
  CHECK(with("llama.attention.value_length", 8) ==
        "architecture \"llama\" needs keys and values of different lengths, which this device "
        "lacks");
  CHECK(with("llama.rope.dimension_count", 8) ==
        "architecture \"llama\" needs rotary positions on a part of a head, which this device "
        "lacks");
  CHECK(with("llama.rope.dimension_count", 20) ==
        "llama.rope.dimension_count: 20, expected at most the head dimension 16");
  CHECK(with("llama.attention.key_length", 15, false) ==
        "llama.attention.key_length: 15, expected an even number");
  CHECK(with("llama.attention.key_length", 0, false) ==
        "llama.attention.key_length: 0, expected 1 to 65536");
}
