// Anonymous memory for weights and KV: one mapping, zeroed by the kernel, huge pages asked for.
// Owns the mapping; hands out 64-byte aligned pieces and never frees one alone.
#pragma once
#include <cstddef>
#include <cstdint>

namespace troupe::gpu {

class memory_region {
 public:
  memory_region() = default;
  /// Throws std::bad_alloc.
  explicit memory_region(std::size_t bytes);
  memory_region(memory_region&& other) noexcept;
  memory_region& operator=(memory_region&& other) noexcept;
  ~memory_region();

  std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  /// The next `bytes`, zeroed. The sum of all pieces, each rounded up to 64, must fit the size.
  std::byte* take(std::size_t bytes);

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t used_ = 0;
};

}  // namespace troupe::gpu
