#include "actors/host_memory.hpp"

#include <algorithm>
#include <limits>
#include <new>
#include <stdexcept>
#include <string>

#include "gpu/host_limits.hpp"

namespace troupe {
namespace {

std::string refused(std::uint64_t bytes, const std::string& why) {
  return "--kv-offloading-size: " + std::to_string(bytes) +
         " bytes of host memory for parked KV blocks, " + why;
}

std::uint32_t slots_in(std::uint64_t bytes, std::uint64_t block_bytes) {
  if (bytes < block_bytes)
    throw std::invalid_argument(refused(bytes, "one block needs " + std::to_string(block_bytes)));
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(bytes / block_bytes, std::numeric_limits<std::uint32_t>::max()));
}

}  // namespace

host_memory::host_memory(std::uint64_t bytes, gpu::backend& device)
    : host_memory(bytes, device.info().kv.largest_block_bytes(),
                  [&device](std::size_t size) { return device.make_host_buffer(size); }) {}

host_memory::host_memory(std::uint64_t bytes, std::uint64_t block_bytes,
                         const allocate& make_buffer)
    : block_bytes_(block_bytes), slots_(slots_in(bytes, block_bytes)) {
  // The kernel promises more than there is, so what is free is asked first.
  const std::string available = std::to_string(gpu::available_memory()) + " bytes are available";
  if (gpu::available_memory() < bytes) throw std::invalid_argument(refused(bytes, available));
  try {
    buffer_ = make_buffer(slots_ * block_bytes_);
  } catch (const std::bad_alloc&) {
    throw std::invalid_argument(refused(bytes, "the system gives no such mapping; " + available));
  }
}

}  // namespace troupe
