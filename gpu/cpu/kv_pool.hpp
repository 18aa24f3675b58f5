// The KV cache: one allocation cut into blocks of 16 or 32 tokens. Knows the layout inside a block
// (gpu/README.md draws it); knows nothing of who holds a block. Owns the memory, touches all of it
// at construction.
#pragma once
#include "gpu/cpu/kernels/rope.hpp"
#include "gpu/cpu/threads/worker_pool.hpp"
#include "gpu/memory_region.hpp"
#include "gpu/model/model_config.hpp"

namespace troupe::gpu {

class kv_pool {
 public:
  /// Throws std::invalid_argument, with both numbers, when the memory is not there.
  kv_pool(const model_config& config, std::uint32_t block_size, std::uint32_t num_blocks,
          worker_pool& pool);

  std::uint64_t block_bytes() const { return block_bytes_; }
  std::uint32_t num_blocks() const { return num_blocks_; }
  std::uint32_t block_size() const { return block_size_; }
  std::byte* block(std::uint32_t index) const { return region_.data() + index * block_bytes_; }
  kv_view layer(std::uint32_t layer) const;

 private:
  std::uint32_t block_size_;
  std::uint32_t num_blocks_;
  std::uint64_t block_bytes_;
  std::size_t head_halves_;  ///< f16 values of K of one layer and head in a block
  std::uint32_t kv_heads_;
  memory_region region_;
};

}  // namespace troupe::gpu
