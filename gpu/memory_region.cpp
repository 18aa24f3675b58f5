#include "gpu/memory_region.hpp"

#include <sys/mman.h>

#include <new>
#include <utility>

namespace troupe::gpu {

memory_region::memory_region(std::size_t bytes) : size_((bytes + 4095) / 4096 * 4096) {
  if (size_ == 0) return;
  void* map = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) throw std::bad_alloc();
  madvise(map, size_, MADV_HUGEPAGE);  // a wish: without it everything works, slower
  data_ = static_cast<std::byte*>(map);
}

memory_region::memory_region(memory_region&& other) noexcept {
  *this = std::move(other);
}

memory_region& memory_region::operator=(memory_region&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  std::swap(used_, other.used_);
  return *this;
}

memory_region::~memory_region() {
  if (data_) munmap(data_, size_);
}

std::byte* memory_region::take(std::size_t bytes) {
  const std::size_t at = used_;
  used_ += (bytes + 63) / 64 * 64;
  if (used_ > size_) throw std::bad_alloc();
  return data_ + at;
}

}  // namespace troupe::gpu
