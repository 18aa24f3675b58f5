#include "gpu/model/model_config.hpp"

#include <cmath>
#include <filesystem>
#include <set>

#include "gpu/model/architecture.hpp"
#include "gpu/model/gguf/gguf_reader.hpp"

namespace troupe::gpu {
namespace {

/// Far above any model there is; what they keep out are sums that overflow and memory that a
/// damaged number would ask for.
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

void check_tensor(const gguf_file& file, const model_tensor& wanted) {
  const auto* tensor = file.find_tensor(wanted.name);
  if (tensor == nullptr) {
    if (wanted.optional) return;
    file.fail("tensor \"" + wanted.name + "\": missing, expected shape " +
              shape_text(wanted.shape));
  }
  // Some writers pad every shape to four dimensions.
  auto found = tensor->shape;  // trailing dimensions of 1 say nothing
  while (found.size() > wanted.shape.size() && found.back() == 1) found.pop_back();
  if (found != wanted.shape) {
    file.fail("tensor \"" + wanted.name + "\": shape is " + shape_text(tensor->shape) +
              ", expected " + shape_text(wanted.shape));
  }
  if (wanted.is_vector() && tensor->type != tensor_type::f32) {
    file.fail("tensor \"" + wanted.name + "\": type is " + name_of(tensor->type) +
              ", expected F32 for a norm");
  }
}

/// Every tensor of the family with its shape, and no other: one that the forward pass would leave
/// out (a bias, rope factors, an expert) would make the answers silently wrong.
void check_tensors(const gguf_file& file, const model_config& config) {
  std::set<std::string, std::less<>> known;
  for (const auto& wanted : all_tensors(config)) {
    check_tensor(file, wanted);
    known.insert(wanted.name);
  }
  for (const auto& tensor : file.tensors()) {
    if (known.find(tensor.name) == known.end()) {
      file.fail("tensor " + shown(tensor.name) + ": not part of the " +
                std::string(config.family->name) + " architecture as supported here");
    }
  }
}

/// Refuses, by what is missing, a model that needs more than the device computes.
void check_computed(const gguf_file& file, const architecture& family, const ability_set& needed,
                    const ability_set& computed) {
  if (const auto missing = lacking(needed, computed); !missing.empty()) {
    file.fail("architecture \"" + std::string(family.name) + "\" needs " + missing +
              ", which this device lacks");
  }
}

const architecture& family_of(const gguf_file& file, const ability_set& computed,
                              std::span<const architecture> families) {
  const auto& name = file.get_string("general.architecture");
  const auto* family = find_architecture(name, families);
  if (family == nullptr) {
    std::string supported;
    for (const auto& row : families) {
      if (!lacking(row.needs(), computed).empty()) continue;
      supported += (supported.empty() ? "" : ", ") + shown(row.name);
    }
    file.fail("general.architecture: " + shown(name) + ", supported is " + supported);
  }
  // Before any dimension: a family's own keys may mean what no check here knows.
  check_computed(file, *family, family->needs(), computed);
  return *family;
}

/// A head's length from the file, or from the width where the file leaves it out. What keys, values
/// and positions disagree about is not computed by every device.
void read_heads(const gguf_file& file, model_config& config, const ability_set& computed) {
  const auto& family = *config.family;
  const auto number = [](std::uint64_t value) { return std::to_string(value); };
  const auto key = [&](std::string_view what) { return family.key(what); };
  config.heads = dimension(file, key(keys::heads), limits::heads);
  config.kv_heads = config.heads;
  if (file.find_uint(key(keys::kv_heads))) {
    config.kv_heads = dimension(file, key(keys::kv_heads), limits::heads);
  }
  const bool given = file.find_uint(key(keys::key_length)).has_value();
  if (!given && config.width % config.heads != 0) {
    file.fail(key(keys::heads) + ": " + number(config.heads) +
              ", expected a divisor of the embedding length " + number(config.width));
  }
  if (config.heads % config.kv_heads != 0) {
    file.fail(key(keys::kv_heads) + ": " + number(config.kv_heads) +
              ", expected a divisor of the head count " + number(config.heads));
  }
  config.head_dim =
      given ? dimension(file, key(keys::key_length), limits::width) : config.width / config.heads;
  if (config.head_dim % 2 != 0) {
    file.fail(
        given ? key(keys::key_length) + ": " + number(config.head_dim) + ", expected an even number"
              : key(keys::heads) + ": " + number(config.heads) + " makes the head dimension " +
                    number(config.head_dim) + ", expected an even one");
  }
  const auto value_length =
      file.find_uint(key(keys::value_length)).value_or(config.width / config.heads);
  // What llama.cpp assumes where the file says nothing.
  const auto rotated = file.find_uint(key(keys::rope_dimensions)).value_or(config.head_dim);
  if (rotated > config.head_dim) {
    file.fail(key(keys::rope_dimensions) + ": " + number(rotated) +
              ", expected at most the head dimension " + number(config.head_dim));
  }
  ability_set needed;
  if (value_length != config.head_dim) needed.add(ability::unequal_heads);
  if (rotated != config.head_dim) needed.add(ability::partial_rope);
  check_computed(file, family, needed, computed);
}

void check_rope_scaling(const gguf_file& file, const architecture& family) {
  const auto key = family.key(keys::rope_scaling);
  if (const auto* scaling = file.find_string(key); scaling != nullptr && *scaling != "none") {
    file.fail(key + ": " + shown(*scaling) + ", supported is \"none\"");
  }
}

/// A dimension that the activations' blocks of 32 must fill.
std::uint32_t blocked(const gguf_file& file, const std::string& key, std::uint64_t most) {
  const auto value = dimension(file, key, most);
  if (value % 32 != 0) {
    file.fail(key + ": " + std::to_string(value) + ", expected a multiple of 32");
  }
  return value;
}

std::string shown_name(const gguf_file& file) {
  const auto* name = file.find_string("general.name");
  return name != nullptr && !name->empty() ? *name
                                           : std::filesystem::path(file.path()).stem().string();
}

}  // namespace

model_config model_config::from_gguf(const gguf_file& file) {
  return from_gguf(file, common_abilities, architectures());
}

model_config model_config::from_gguf(const gguf_file& file, const ability_set& computed,
                                     std::span<const architecture> families) {
  model_config config;
  config.family = &family_of(file, computed, families);
  const auto key = [&](std::string_view what) { return config.family->key(what); };
  config.name = shown_name(file);
  config.file_bytes = file.size_bytes();
  config.layers = dimension(file, key(keys::layers), limits::layers);
  config.width = blocked(file, key(keys::width), limits::width);
  config.ffn_width = blocked(file, key(keys::ffn_width), limits::ffn_width);
  config.context = dimension(file, key(keys::context), limits::context);
  read_heads(file, config, computed);
  check_rope_scaling(file, *config.family);
  config.rope_base = positive_float(file, key(keys::rope_base),
                                    file.find_float(key(keys::rope_base)).value_or(10000.0), 1e12);
  const auto epsilon = key(config.family->norm_epsilon);
  config.norm_eps = positive_float(file, epsilon, file.get_float(epsilon), 1.0);

  const auto vocab = file.get_strings("tokenizer.ggml.tokens").size();
  if (vocab < 1 || vocab > limits::vocab) {
    file.fail("tokenizer.ggml.tokens: " + std::to_string(vocab) + " tokens, expected 1 to " +
              std::to_string(limits::vocab));
  }
  config.vocab = static_cast<std::uint32_t>(vocab);
  check_tensors(file, config);
  // The head is optional in every family; a file without one shares the embedding's tensor.
  config.tied_embeddings = true;  // until the head is a tensor of its own
  for (const auto& tensor : model_tensors(config)) {
    if (tensor.slot == weight_slot::head && file.find_tensor(tensor.name) != nullptr)
      config.tied_embeddings = false;
  }
  return config;
}

}  // namespace troupe::gpu
