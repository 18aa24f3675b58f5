#include "gpu/model/model_config.hpp"

#include <catch2/catch.hpp>
#include <functional>

#include "tests/support/temporary_file.hpp"
#include "tests/support/tiny_llama.hpp"

using namespace troupe::gpu;
using namespace troupe::test;

namespace {

/// What is said of a tiny model after `change`, without the path in front.
std::string refusal(const std::function<void(gguf_writer&)>& metadata,
                    const tiny_llama& tensors = {}) {
  gguf_writer writer;
  metadata(writer);
  add_tiny_llama_tensors(writer, tensors);
  const temporary_file source(writer.bytes());
  try {
    model_config::from_gguf(gguf_file::open(source.path()));
  } catch (const model_error& error) {
    return std::string(error.what()).substr(source.path().size() + 2);
  }
  return "no error";
}

std::string refusal_of(const tiny_llama& described, const tiny_llama& tensors) {
  return refusal([&](gguf_writer& writer) { writer = tiny_llama_metadata(described); }, tensors);
}

std::string refusal_of(const tiny_llama& model) {
  return refusal_of(model, model);
}

}  // namespace

TEST_CASE("model_config: the default model's numbers") {
  const auto config = model_config::from_gguf(gguf_file::open(default_model_path()));
  CHECK(config.layers == 30);
  CHECK(config.width == 576);
  CHECK(config.ffn_width == 1536);
  CHECK(config.heads == 9);
  CHECK(config.kv_heads == 3);
  CHECK(config.head_dim == 64);
  CHECK(config.vocab == 49152);
  CHECK(config.context == 8192);
  CHECK(config.rope_base == 100000.0f);
  CHECK(config.norm_eps == 1e-5f);
  CHECK(config.tied_embeddings);
  CHECK(config.file_bytes == 98362432);
}

TEST_CASE("model_config: tiny models of every weight type, tied or not, are accepted") {
  for (const tensor_type one : loadable_types()) {
    const auto type = static_cast<std::uint32_t>(one);
    for (const bool tied : {true, false}) {
      const temporary_file source(
          tiny_llama_bytes({.width = 256, .ffn_width = 256, .type = type, .tied = tied}));
      const auto config = model_config::from_gguf(gguf_file::open(source.path()));
      CHECK(config.name == "tiny");
      CHECK(config.tied_embeddings == tied);
      CHECK(config.head_dim == 64);
    }
  }
}

TEST_CASE("C205 model_config: another architecture is named") {
  CHECK(refusal([](gguf_writer& writer) { writer.text("general.architecture", "qwen3moe"); }) ==
        "general.architecture: \"qwen3moe\", supported is \"llama\"");
  CHECK(refusal([](gguf_writer&) {}) == "general.architecture: missing, expected a string");
}

TEST_CASE("model_config: impossible dimensions are refused with the key") {
  CHECK(refusal_of({.layers = 0}) == "llama.block_count: 0, expected 1 to 1024");
  CHECK(refusal_of({.layers = 2000}, {}) == "llama.block_count: 2000, expected 1 to 1024");
  CHECK(refusal_of({.width = 48, .heads = 3, .kv_heads = 1, .type = 0}) ==
        "llama.embedding_length: 48, expected a multiple of 32");
  CHECK(refusal_of({.ffn_width = 100, .type = 0}) ==
        "llama.feed_forward_length: 100, expected a multiple of 32");
  CHECK(refusal_of({.heads = 5}, {}) ==
        "llama.attention.head_count: 5, expected a divisor of the embedding length 64");
  CHECK(refusal_of({.kv_heads = 3}) ==
        "llama.attention.head_count_kv: 3, expected a divisor of the head count 4");
  CHECK(refusal_of({.heads = 64, .kv_heads = 64}) ==
        "llama.attention.head_count: 64 makes the head dimension 1, expected an even one");
}

TEST_CASE("model_config: rope settings that would be ignored are refused") {
  const auto with = [](auto add) {
    return refusal([&](gguf_writer& writer) { writer = tiny_llama_metadata({}), add(writer); });
  };
  CHECK(with([](gguf_writer& w) { w.text("llama.rope.scaling.type", "yarn"); }) ==
        "llama.rope.scaling.type: \"yarn\", supported is \"none\"");
  CHECK(with([](gguf_writer& w) { w.text("llama.rope.scaling.type", "none"); }) == "no error");
  CHECK(with([](gguf_writer& w) { w.u32("llama.attention.key_length", 8); }) ==
        "llama.rope.dimension_count: 16, expected at most the head dimension 8");
  CHECK(with([](gguf_writer& w) {
          w.tensor("rope_freqs.weight", {8}, 0, std::string(32, '\0'));
        }) == "tensor \"rope_freqs.weight\": not part of the llama architecture as supported here");
  CHECK(with([](gguf_writer& w) {
          w.tensor("blk.0.attn_q.bias", {64}, 0, std::string(256, '\0'));
        }) == "tensor \"blk.0.attn_q.bias\": not part of the llama architecture as supported here");
}

TEST_CASE("model_config: missing and misshapen tensors are named with the expected shape") {
  CHECK(refusal_of({.layers = 3}, {.layers = 2}) ==
        "tensor \"blk.2.attn_norm.weight\": missing, expected shape [64]");
  CHECK(refusal_of({}, {.ffn_width = 128}) ==
        "tensor \"blk.0.ffn_gate.weight\": shape is [64, 128], expected [64, 96]");
  CHECK(refusal_of({.kv_heads = 2}, {.kv_heads = 4}) ==
        "tensor \"blk.0.attn_k.weight\": shape is [64, 64], expected [64, 32]");
  CHECK(
      refusal_of({}, {.layers = 3}).starts_with("tensor \"blk.2.attn_norm.weight\": not part of"));
}

TEST_CASE("model_config: a vocabulary of another size than the embeddings is refused") {
  gguf_writer writer = tiny_llama_metadata({});
  writer.tensor("token_embd.weight", {64, 100}, 0, std::string(64 * 100 * 4, '\0'));
  const temporary_file source(writer.bytes());
  CHECK_THROWS_WITH(
      model_config::from_gguf(gguf_file::open(source.path())),
      source.path() + ": tensor \"token_embd.weight\": shape is [64, 100], expected [64, 270]");
}

TEST_CASE("model_config: a norm in another type than F32 is refused") {
  gguf_writer writer = tiny_llama_metadata({});
  writer.tensor("token_embd.weight", {64, 270}, 1, std::string(64 * 270 * 2, '\0'));
  writer.tensor("output_norm.weight", {64}, 1, std::string(128, '\0'));
  const temporary_file source(writer.bytes());
  CHECK_THROWS_WITH(
      model_config::from_gguf(gguf_file::open(source.path())),
      source.path() + ": tensor \"output_norm.weight\": type is F16, expected F32 for a norm");
}
