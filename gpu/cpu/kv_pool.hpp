// The memory of the KV cache, cut into blocks as its kv_format says (gpu/README.md draws them).
// Knows nothing of who holds a block. Owns the memory, touches all of it at construction.
#pragma once
#include "gpu/cpu/kernels/kv_view.hpp"
#include "gpu/cpu/threads/worker_pool.hpp"
#include "gpu/kv_format.hpp"
#include "gpu/memory_region.hpp"

namespace troupe::gpu {

class kv_pool {
 public:
  /// Throws std::invalid_argument, with both numbers, when the memory is not there.
  kv_pool(kv_format format, worker_pool& pool);

  const kv_format& format() const { return format_; }
  std::uint64_t block_bytes() const { return format_.block_bytes(0); }
  std::uint32_t num_blocks() const { return format_.num_blocks(); }
  std::uint32_t block_size() const { return format_.block_size; }
  std::byte* block(std::uint32_t index) const { return region_.data() + index * block_bytes(); }
  kv_view layer(std::uint32_t layer) const;
  /// K and V of one token in one layer.
  std::uint64_t layer_token_bytes(std::uint32_t layer) const {
    return format_.layer_bytes(layer) / format_.block_size;
  }

 private:
  kv_format format_;  // one group: the kernels go through one block table for all layers
  memory_region region_;
};

}  // namespace troupe::gpu
