// The model families: one row each says which metadata keys, tensors and operations a family has.
// The check of a file (model_config::from_gguf), the loaders of the devices and their forward
// passes read it; nothing else in the tree knows a tensor's name. A family that a device already
// computes is one more row; one that it does not is refused by what it lacks. Constants alone.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/model/model_config.hpp"

namespace troupe::gpu {

/// What a forward pass may have to compute. A device has those that its kernels compute.
enum class ability : std::uint8_t {
  rms_norm,
  layer_norm,
  rope_pairs,   ///< rotary positions, pair i is (2i, 2i + 1): llama.cpp's NORM
  rope_halves,  ///< pair i is (i, i + half the head): llama.cpp's NEOX
  learned_positions,
  silu_gate,   ///< silu(gate) * up
  gelu_gate,   ///< gelu(gate) * up
  gelu_alone,  ///< gelu(up), no gate
  biases,
  query_key_norms,   ///< a norm on each head of q and k
  fused_qkv,         ///< q, k and v in one matrix
  scaled_embedding,  ///< times the square root of the width
  partial_rope,      ///< positions on the first dimensions of a head only
  unequal_heads,     ///< keys and values of different lengths
  count
};

class ability_set {
 public:
  constexpr ability_set() = default;
  constexpr ability_set(std::initializer_list<ability> all) {
    for (const auto one : all) add(one);
  }
  constexpr ability_set& add(ability one) {
    bits_ |= 1u << static_cast<unsigned>(one);
    return *this;
  }
  constexpr bool has(ability one) const { return (bits_ >> static_cast<unsigned>(one) & 1u) != 0; }
  constexpr bool operator==(const ability_set&) const = default;

 private:
  std::uint32_t bits_ = 0;
};

/// What every device of this build computes. A device that computes more says so where it is
/// chosen, one that computes less cannot serve.
inline constexpr ability_set common_abilities{ability::rms_norm, ability::rope_pairs,
                                              ability::silu_gate};

/// Which weight of a model a tensor is.
enum class weight_slot : std::uint8_t {
  token_embedding,
  position_embedding,
  output_norm,
  output_norm_bias,
  head,
  attention_norm,
  attention_norm_bias,
  q,
  k,
  v,
  qkv,
  q_bias,
  k_bias,
  v_bias,
  qkv_bias,
  q_norm,
  k_norm,
  attention_output,
  attention_output_bias,
  ffn_norm,
  ffn_norm_bias,
  gate,
  up,
  up_bias,
  down,
  down_bias
};

/// A dimension of a tensor in terms of the model's numbers.
enum class extent : std::uint8_t {
  none,
  width,
  ffn,
  head,   ///< one head
  query,  ///< all query heads
  key,    ///< all KV heads
  qkv,    ///< query, key and value heads
  vocab,
  context
};

struct tensor_rule {
  weight_slot slot;
  std::string_view name;      ///< of a layer's tensor: behind "blk.N."
  extent in;                  ///< shape[0]
  extent out = extent::none;  ///< shape[1]; none: a vector, always F32
  bool optional = false;
};

struct architecture {
  std::string_view name;  ///< general.architecture, and what its keys begin with
  ability norm, positions, activation;
  ability_set extras;
  std::string_view norm_epsilon;  ///< key of the norms' epsilon
  std::span<const tensor_rule> model_tensors, layer_tensors;

  /// The whole name of a metadata key: "llama.block_count".
  std::string key(std::string_view what) const {
    return std::string(name) + "." + std::string(what);
  }
  ability_set needs() const;
};

// Metadata keys that all families write alike, behind their name.
namespace keys {
inline constexpr std::string_view layers = "block_count", width = "embedding_length",
                                  ffn_width = "feed_forward_length", context = "context_length",
                                  heads = "attention.head_count",
                                  kv_heads = "attention.head_count_kv",
                                  key_length = "attention.key_length",
                                  value_length = "attention.value_length",
                                  rope_dimensions = "rope.dimension_count",
                                  rope_base = "rope.freq_base", rope_scaling = "rope.scaling.type";
}

/// Every family this build can describe; Llama is the first.
std::span<const architecture> architectures();
/// Null: no such row.
const architecture* find_architecture(std::string_view name,
                                      std::span<const architecture> rows = architectures());

/// "biases and a norm on each head of q and k": what of `needed` a device with `computed` lacks.
/// Empty: nothing.
std::string lacking(const ability_set& needed, const ability_set& computed);

/// A tensor as a file of this model must have it.
struct model_tensor {
  weight_slot slot;
  std::string name;
  std::vector<std::uint64_t> shape;
  bool optional = false;
  bool is_vector() const { return shape.size() == 1; }
};

/// Those that no layer has, in the row's order.
std::vector<model_tensor> model_tensors(const model_config&);
std::vector<model_tensor> layer_tensors(const model_config&, std::uint32_t layer);
std::vector<model_tensor> all_tensors(const model_config&);

}  // namespace troupe::gpu
