// The host tier's memory, cut into slots of one KV block each and untouched until a slot is used.
// The device says what kind of memory it copies to (page-locked or plain). Shared by the mover and
// every copy it has started, so that it outlives both. Knows nothing of who uses a slot.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "gpu/backend.hpp"

namespace troupe {

class host_memory {
 public:
  using allocate = std::function<std::unique_ptr<gpu::host_buffer>(std::size_t)>;
  /// `bytes` is the value of --kv-offloading-size. Throws std::invalid_argument, naming option,
  /// value and limit, when it holds no block or the memory is not there.
  host_memory(std::uint64_t bytes, std::uint64_t block_bytes,
              const allocate& = gpu::plain_host_buffer);
  /// Slots for any block of the device, in memory that it gives.
  host_memory(std::uint64_t bytes, gpu::backend& device);

  std::uint32_t slots() const { return slots_; }
  std::uint64_t block_bytes() const { return block_bytes_; }
  std::span<std::byte> slot(std::uint32_t index) const {
    return {buffer_->data() + index * block_bytes_, static_cast<std::size_t>(block_bytes_)};
  }

 private:
  std::uint64_t block_bytes_;
  std::uint32_t slots_;
  std::unique_ptr<gpu::host_buffer> buffer_;
};

}  // namespace troupe
