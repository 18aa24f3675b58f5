// How the KV cache is stored: the types of K and of V, which layers keep a more precise one, where
// K and V of a layer and head lie in a block, and which layers share a block table. Pool, strides
// of the kernels, mover, `troupe estimate` and the report at the start take all their numbers from
// here. Pure; knows nothing of who holds a block.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/kv_encoding.hpp"

namespace troupe::gpu {

/// How a value of K or V is stored. A type with scales has bytes for them beside the values of
/// each token and head: a scale depends on that token's own values alone, so nothing that happens
/// to the rest of the sequence changes what is stored.
struct kv_dtype {
  std::string_view name;
  std::uint32_t value_bits = 0;
  std::uint32_t head_scale_bytes = 0;
  kv_encoding encoding = kv_encoding::f16;
  bool operator==(const kv_dtype&) const = default;
};

inline constexpr kv_dtype kv_f16{"f16", 16, 0, kv_encoding::f16};
inline constexpr kv_dtype kv_bf16{"bf16", 16, 0, kv_encoding::bf16};
inline constexpr kv_dtype kv_f32{"f32", 32, 0, kv_encoding::f32};
inline constexpr kv_dtype kv_int8{"int8", 8, 4, kv_encoding::int8};
inline constexpr kv_dtype kv_fp8_e4m3{"fp8_e4m3", 8, 4, kv_encoding::fp8_e4m3};
inline constexpr kv_dtype kv_fp8_e5m2{"fp8_e5m2", 8, 4, kv_encoding::fp8_e5m2};
inline constexpr kv_dtype kv_int4{"int4", 4, 4, kv_encoding::int4};

/// Of K and of V in a layer.
struct kv_types {
  kv_dtype k = kv_f16, v = kv_f16;
  kv_types() = default;
  kv_types(const kv_dtype& both) : k(both), v(both) {}  // NOLINT: one type is that of both
  kv_types(const kv_dtype& key, const kv_dtype& value) : k(key), v(value) {}
  std::string name() const;  ///< "f16", or "int8/int4" of K and V
  bool operator==(const kv_types&) const = default;
};

/// K and V of one token: layers x kv heads x (head dim x bits of a value / 8 + bytes of the scale),
/// of K and of V. The one place of this formula. nullopt: past 64 bits.
std::optional<std::uint64_t> kv_token_bytes(const kv_types&, std::uint64_t layers,
                                            std::uint64_t kv_heads, std::uint64_t head_dim);

/// The same in words, for `layers` layers of `types` and `precise_layers` of `precise`: "2 x 30
/// layers x 3 kv heads x 64 head dim x 2 bytes", or the bytes of K and V of a head, added.
std::string kv_token_formula(const kv_types& types, std::uint64_t layers, const kv_types& precise,
                             std::uint64_t precise_layers, std::uint64_t kv_heads,
                             std::uint64_t head_dim);

/// The first and the last layers of a model.
struct layer_ends {
  std::uint32_t first = 0, last = 0;
  bool operator==(const layer_ends&) const = default;
};
/// "FIRST,LAST": two numbers of layers. Throws std::invalid_argument that names the option.
layer_ends read_precise_layers(const std::string& text, std::uint64_t layers);

/// Layers of one cache policy: they share a block table. Block ids are unique over all groups, each
/// group has a range of them, and all ranges are equally long.
struct kv_layer_group {
  std::vector<std::uint32_t> layers;  ///< of the model, ascending
  /// How many tokens these layers look back over, the token itself included; 0: over all. Blocks
  /// that the window has passed are given back.
  std::uint32_t window = 0;
  std::uint32_t first_block = 0;
  std::uint32_t blocks = 0;
  bool operator==(const kv_layer_group&) const = default;
};

/// A block holds, for each layer of its group in turn: K of every head, then V of every head; of a
/// head the values of all tokens, then their scales. What order a device gives the values of one
/// head is its own.
struct kv_format {
  kv_types types;                             ///< of all layers but
  std::vector<std::uint32_t> precise_layers;  ///< these, ascending, which are stored as
  kv_types precise;                           ///< this
  std::uint32_t block_size = 16;              ///< tokens of a block, the same in all groups
  std::uint32_t kv_heads = 0;
  std::uint32_t head_dim = 0;
  std::vector<kv_layer_group> groups;

  std::uint32_t num_blocks() const;  ///< of all groups
  /// The tokens for which every group has a place: the smallest group's.
  std::uint64_t pool_tokens() const;
  std::uint64_t pool_bytes() const;
  std::uint64_t token_bytes() const;      ///< in all groups
  std::string token_formula() const;      ///< the same in words
  std::uint64_t token_row_bytes() const;  ///< block_size tokens in all groups: a block of each
  bool is_precise(std::uint32_t layer) const;
  const kv_types& types_of(std::uint32_t layer) const {
    return is_precise(layer) ? precise : types;
  }
  /// "f16", "int8/int4", "int4, 3 layers f16".
  std::string types_name() const;
  std::uint64_t head_bytes(const kv_dtype&) const;  ///< K, or V, of one layer and head in a block
  std::uint64_t scales_offset(const kv_dtype&) const;     ///< from a head's values to their scales
  std::uint64_t layer_bytes(std::uint32_t layer) const;   ///< K and V of one layer in a block
  std::uint64_t value_offset(std::uint32_t layer) const;  ///< from a layer's K to its V
  std::uint64_t layer_offset(std::uint32_t layer) const;  ///< from a block's begin to that layer
  std::uint64_t block_bytes(std::size_t group) const;
  std::uint64_t largest_block_bytes() const;

  std::size_t group_of_block(std::uint32_t block) const;  ///< groups.size(): outside the pool
  std::uint64_t bytes_of_block(std::uint32_t block) const {
    return block_bytes(group_of_block(block));
  }
  bool operator==(const kv_format&) const = default;
};

/// All layers in one group of `num_blocks` blocks.
kv_format one_group_format(const kv_types&, std::uint32_t layers, std::uint32_t kv_heads,
                           std::uint32_t head_dim, std::uint32_t block_size,
                           std::uint32_t num_blocks);

/// The same with groups[g] holding the layers of `groups[g]`, and `num_blocks` blocks for each.
kv_format grouped_format(const kv_types&, std::vector<std::vector<std::uint32_t>> groups,
                         std::uint32_t kv_heads, std::uint32_t head_dim, std::uint32_t block_size,
                         std::uint32_t num_blocks);

}  // namespace troupe::gpu
