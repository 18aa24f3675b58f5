// Where one layer's K and V lie in the pool, and how they are coded, as the kernels see it; all
// distances in bytes. Block b, head h: K at base + b * block_stride + h * key.head_stride, V at
// base + b * block_stride + value_offset + h * value.head_stride. gpu/README.md draws the layouts
// of a head; behind its values, at `scales`, stands a float for each token of the block.
#pragma once
#include <cstddef>
#include <cstdint>

#include "gpu/kv_encoding.hpp"

namespace troupe::gpu {

struct kv_side {
  kv_encoding encoding = kv_encoding::f16;
  std::size_t head_stride = 0;
  std::size_t scales = 0;  ///< from a head's begin; 0: the encoding has none

  bool scaled() const { return scales != 0; }
  bool has_codes() const { return encoding == kv_encoding::int8 || encoding == kv_encoding::int4; }
};

struct kv_view {
  std::byte* base = nullptr;  ///< of this layer
  std::size_t block_stride = 0;
  std::size_t value_offset = 0;
  std::uint32_t block_size = 0;  ///< tokens
  kv_side key, value;

  std::byte* key_head(std::uint32_t block, std::uint32_t head) const {
    return base + block * block_stride + head * key.head_stride;
  }
  std::byte* value_head(std::uint32_t block, std::uint32_t head) const {
    return base + block * block_stride + value_offset + head * value.head_stride;
  }
};

}  // namespace troupe::gpu
