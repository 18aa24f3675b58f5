#include "gpu/model/model_config.hpp"

#include <cmath>
#include <filesystem>
#include <initializer_list>

#include "gpu/model/gguf/gguf_reader.hpp"

namespace troupe::gpu {
namespace {

struct limits {
  static constexpr std::uint64_t layers = 1024;
  static constexpr std::uint64_t width = 1u << 16;
  static constexpr std::uint64_t ffn_width = 1u << 18;
  static constexpr std::uint64_t heads = 1024;
  static constexpr std::uint64_t context = 1u << 24;
  static constexpr std::uint64_t vocab = 1u << 22;
};

/// `key` as a number from 1 to `most`.
std::uint32_t dimension(const gguf_file& file, const std::string& key, std::uint64_t most) {
  const auto value = file.get_uint(key);
  if (value < 1 || value > most) {
    file.fail(key + ": " + std::to_string(value) + ", expected 1 to " + std::to_string(most));
  }
  return static_cast<std::uint32_t>(value);
}

float positive_float(const gguf_file& file, const std::string& key, double value, double most) {
  if (!std::isfinite(value) || value <= 0.0 || value > most) {
    file.fail(key + ": " + std::to_string(value) + ", expected more than 0 and at most " +
              std::to_string(most));
  }
  return static_cast<float>(value);
}

std::string shape_text(const std::vector<std::uint64_t>& shape) {
  std::string out = "[";
  for (const auto dimension : shape)
    out += (out.size() > 1 ? ", " : "") + std::to_string(dimension);
  return out + "]";
}

enum class tensor_role { matrix, norm };

void check_tensor(const gguf_file& file, const std::string& name, std::vector<std::uint64_t> shape,
                  tensor_role role) {
  const auto* tensor = file.find_tensor(name);
  if (tensor == nullptr)
    file.fail("tensor \"" + name + "\": missing, expected shape " + shape_text(shape));
  auto found = tensor->shape;  // trailing dimensions of 1 say nothing
  while (found.size() > shape.size() && found.back() == 1) found.pop_back();
  if (found != shape) {
    file.fail("tensor \"" + name + "\": shape is " + shape_text(tensor->shape) + ", expected " +
              shape_text(shape));
  }
  if (role == tensor_role::norm && tensor->type != tensor_type::f32) {
    file.fail("tensor \"" + name + "\": type is " + name_of(tensor->type) +
              ", expected F32 for a norm");
  }
}

void check_layer(const gguf_file& file, const model_config& config, std::uint32_t layer) {
  const auto prefix = "blk." + std::to_string(layer) + ".";
  const std::uint64_t width = config.width, ffn_width = config.ffn_width;
  const std::uint64_t kv_width = std::uint64_t{config.kv_heads} * config.head_dim;
  check_tensor(file, prefix + "attn_norm.weight", {width}, tensor_role::norm);
  check_tensor(file, prefix + "attn_q.weight", {width, width}, tensor_role::matrix);
  check_tensor(file, prefix + "attn_k.weight", {width, kv_width}, tensor_role::matrix);
  check_tensor(file, prefix + "attn_v.weight", {width, kv_width}, tensor_role::matrix);
  check_tensor(file, prefix + "attn_output.weight", {width, width}, tensor_role::matrix);
  check_tensor(file, prefix + "ffn_norm.weight", {width}, tensor_role::norm);
  check_tensor(file, prefix + "ffn_gate.weight", {width, ffn_width}, tensor_role::matrix);
  check_tensor(file, prefix + "ffn_up.weight", {width, ffn_width}, tensor_role::matrix);
  check_tensor(file, prefix + "ffn_down.weight", {ffn_width, width}, tensor_role::matrix);
}

/// Everything the forward pass would have to apply is named here; a tensor that it would leave out
/// (a bias, rope factors, an expert) would make the answers silently wrong.
void check_nothing_else(const gguf_file& file, const model_config& config) {
  const std::size_t expected =
      2 + (config.tied_embeddings ? 0 : 1) + std::size_t{config.layers} * 9;
  if (file.tensors().size() == expected) return;
  constexpr std::string_view parts[] = {
      "attn_norm.weight", "attn_q.weight",      "attn_k.weight",
      "attn_v.weight",    "attn_output.weight", "ffn_norm.weight",
      "ffn_gate.weight",  "ffn_up.weight",      "ffn_down.weight"};
  for (const auto& tensor : file.tensors()) {
    const std::string_view name = tensor.name;
    if (name == "token_embd.weight" || name == "output_norm.weight" || name == "output.weight")
      continue;
    bool known = false;
    if (name.starts_with("blk.") && name.find('.', 4) != name.npos) {
      const auto dot = name.find('.', 4);
      for (const auto part : parts) known = known || name.substr(dot + 1) == part;
      std::uint64_t layer = 0;
      for (const char c : name.substr(4, dot - 4)) {
        known = known && c >= '0' && c <= '9' && layer < limits::layers;
        layer = layer * 10 + static_cast<std::uint64_t>(static_cast<unsigned char>(c) & 15u);
      }
      known = known && layer < config.layers;
    }
    if (!known)
      file.fail("tensor " + shown(name) + ": not part of the llama architecture as supported here");
  }
}

void check_rope(const gguf_file& file, const model_config& config) {
  const std::string head_dim = std::to_string(config.head_dim);
  for (const char* key : {"llama.rope.dimension_count", "llama.attention.key_length",
                          "llama.attention.value_length"}) {
    const auto value = file.find_uint(key);
    if (value && *value != config.head_dim) {
      file.fail(std::string(key) + ": " + std::to_string(*value) +
                ", expected the head dimension " + head_dim);
    }
  }
  if (const auto* scaling = file.find_string("llama.rope.scaling.type");
      scaling != nullptr && *scaling != "none") {
    file.fail("llama.rope.scaling.type: " + shown(*scaling) + ", supported is \"none\"");
  }
}

std::string shown_name(const gguf_file& file) {
  const auto* name = file.find_string("general.name");
  return name != nullptr && !name->empty() ? *name
                                           : std::filesystem::path(file.path()).stem().string();
}

}  // namespace

model_config model_config::from_gguf(const gguf_file& file) {
  const auto& architecture = file.get_string("general.architecture");
  if (architecture != "llama") {
    file.fail("general.architecture: " + shown(architecture) + ", supported is \"llama\"");
  }
  model_config config;
  config.name = shown_name(file);
  config.file_bytes = file.size_bytes();
  config.layers = dimension(file, "llama.block_count", limits::layers);
  config.width = dimension(file, "llama.embedding_length", limits::width);
  config.ffn_width = dimension(file, "llama.feed_forward_length", limits::ffn_width);
  config.heads = dimension(file, "llama.attention.head_count", limits::heads);
  config.kv_heads = config.heads;
  if (file.find_uint("llama.attention.head_count_kv")) {
    config.kv_heads = dimension(file, "llama.attention.head_count_kv", limits::heads);
  }
  config.context = dimension(file, "llama.context_length", limits::context);

  const auto found = [](std::uint32_t value) { return std::to_string(value); };
  if (config.width % 32 != 0) {
    file.fail("llama.embedding_length: " + found(config.width) + ", expected a multiple of 32");
  }
  if (config.ffn_width % 32 != 0) {
    file.fail("llama.feed_forward_length: " + found(config.ffn_width) +
              ", expected a multiple of 32");
  }
  if (config.width % config.heads != 0) {
    file.fail("llama.attention.head_count: " + found(config.heads) +
              ", expected a divisor of the embedding length " + found(config.width));
  }
  if (config.heads % config.kv_heads != 0) {
    file.fail("llama.attention.head_count_kv: " + found(config.kv_heads) +
              ", expected a divisor of the head count " + found(config.heads));
  }
  config.head_dim = config.width / config.heads;
  if (config.head_dim % 2 != 0) {
    file.fail("llama.attention.head_count: " + found(config.heads) + " makes the head dimension " +
              found(config.head_dim) + ", expected an even one");
  }
  check_rope(file, config);
  config.rope_base =
      positive_float(file, "llama.rope.freq_base",
                     file.find_float("llama.rope.freq_base").value_or(10000.0), 1e12);
  config.norm_eps = positive_float(file, "llama.attention.layer_norm_rms_epsilon",
                                   file.get_float("llama.attention.layer_norm_rms_epsilon"), 1.0);

  const auto vocab = file.get_strings("tokenizer.ggml.tokens").size();
  if (vocab < 1 || vocab > limits::vocab) {
    file.fail("tokenizer.ggml.tokens: " + std::to_string(vocab) + " tokens, expected 1 to " +
              std::to_string(limits::vocab));
  }
  config.vocab = static_cast<std::uint32_t>(vocab);
  check_tensor(file, "token_embd.weight", {config.width, config.vocab}, tensor_role::matrix);
  check_tensor(file, "output_norm.weight", {config.width}, tensor_role::norm);
  config.tied_embeddings = file.find_tensor("output.weight") == nullptr;
  if (!config.tied_embeddings) {
    check_tensor(file, "output.weight", {config.width, config.vocab}, tensor_role::matrix);
  }
  for (std::uint32_t layer = 0; layer < config.layers; ++layer) check_layer(file, config, layer);
  check_nothing_else(file, config);
  return config;
}

}  // namespace troupe::gpu
