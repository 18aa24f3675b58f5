// How the KV cache is stored: the type of a value, where K and V of a layer and head lie in a
// block, and which layers share a block table. Pool, strides of the kernels, mover, `troupe
// estimate` and the report at the start take all their numbers from here. Pure; knows nothing of
// who holds a block.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::gpu {

/// How a value of K or V is stored. A type with scales has bytes for them beside the values of
/// each token and head.
struct kv_dtype {
  std::string_view name;
  std::uint32_t value_bits = 0;
  std::uint32_t head_scale_bytes = 0;
  bool operator==(const kv_dtype&) const = default;
};

inline constexpr kv_dtype kv_f16{"f16", 16, 0};
inline constexpr kv_dtype kv_bf16{"bf16", 16, 0};
inline constexpr kv_dtype kv_f32{"f32", 32, 0};
inline constexpr kv_dtype kv_int8{"int8", 8, 0};

/// K and V of one token: 2 x layers x kv heads x head dim x bytes of a value, and the scales. The
/// one place of this formula. nullopt: past 64 bits.
std::optional<std::uint64_t> kv_token_bytes(const kv_dtype&, std::uint64_t layers,
                                            std::uint64_t kv_heads, std::uint64_t head_dim);

/// Layers of one cache policy: they share a block table. Block ids are unique over all groups, each
/// group has a range of them.
struct kv_layer_group {
  std::vector<std::uint32_t> layers;  ///< of the model, ascending
  std::uint32_t first_block = 0;
  std::uint32_t blocks = 0;
  bool operator==(const kv_layer_group&) const = default;
};

/// A block holds, for each layer of its group in turn: K of every head, then V of every head. What
/// order a device gives the values of one head is its own.
struct kv_format {
  kv_dtype dtype = kv_f16;
  std::uint32_t block_size = 16;  ///< tokens of a block, the same in all groups
  std::uint32_t kv_heads = 0;
  std::uint32_t head_dim = 0;
  std::vector<kv_layer_group> groups;

  std::uint32_t num_blocks() const;  ///< of all groups
  /// The tokens for which every group has a place: the smallest group's.
  std::uint64_t pool_tokens() const;
  std::uint64_t pool_bytes() const;
  std::uint64_t token_bytes() const;      ///< in all groups
  std::uint64_t token_row_bytes() const;  ///< block_size tokens in all groups: a block of each
  std::uint64_t head_bytes() const;       ///< K, or V, of one layer and head in a block
  std::uint64_t layer_bytes() const;      ///< K and V of one layer in a block
  std::uint64_t value_offset() const;     ///< from a layer's K to its V
  std::uint64_t block_bytes(std::size_t group) const;
  std::uint64_t largest_block_bytes() const;

  std::size_t group_of_block(std::uint32_t block) const;  ///< groups.size(): outside the pool
  std::uint64_t bytes_of_block(std::uint32_t block) const {
    return block_bytes(group_of_block(block));
  }
  bool operator==(const kv_format&) const = default;
};

/// All layers in one group of `num_blocks` blocks.
kv_format one_group_format(const kv_dtype&, std::uint32_t layers, std::uint32_t kv_heads,
                           std::uint32_t head_dim, std::uint32_t block_size,
                           std::uint32_t num_blocks);

/// The same with groups[g] holding the layers of `groups[g]`, and `num_blocks` blocks for each.
kv_format grouped_format(const kv_dtype&, std::vector<std::vector<std::uint32_t>> groups,
                         std::uint32_t kv_heads, std::uint32_t head_dim, std::uint32_t block_size,
                         std::uint32_t num_blocks);

}  // namespace troupe::gpu
