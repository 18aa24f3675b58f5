// The host tier's memory: one anonymous mapping cut into slots of one KV block each, untouched
// until a slot is used. Shared by the mover and every copy it has started, so that it outlives
// both. Knows nothing of who uses a slot.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "gpu/memory_region.hpp"

namespace troupe {

class host_memory {
 public:
  /// `bytes` is the value of --kv-offloading-size. Throws std::invalid_argument, naming option,
  /// value and limit, when it holds no block or the memory is not there.
  host_memory(std::uint64_t bytes, std::uint64_t block_bytes);

  std::uint32_t slots() const { return slots_; }
  std::uint64_t block_bytes() const { return block_bytes_; }
  std::span<std::byte> slot(std::uint32_t index) const {
    return {region_.data() + index * block_bytes_, static_cast<std::size_t>(block_bytes_)};
  }

 private:
  std::uint64_t block_bytes_;
  std::uint32_t slots_;
  gpu::memory_region region_;
};

}  // namespace troupe
