#include "gpu/cpu/kv_pool.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>

#include "gpu/host_limits.hpp"

namespace troupe::gpu {

namespace {

void require_memory(std::uint32_t blocks, std::uint64_t block_bytes) {
  const std::uint64_t available = available_memory();
  if (blocks <= available / block_bytes) return;
  throw std::invalid_argument("num_blocks: " + std::to_string(blocks) + " KV blocks need " +
                              std::to_string(blocks * block_bytes) + " bytes, " +
                              std::to_string(available) + " bytes are available");
}

}  // namespace

kv_pool::kv_pool(const model_config& config, std::uint32_t block_size, std::uint32_t num_blocks,
                 worker_pool& pool)
    : block_size_(block_size),
      num_blocks_(num_blocks),
      block_bytes_(config.kv_bytes_per_token() * block_size),
      head_halves_(std::size_t{config.head_dim} * block_size),
      kv_heads_(config.kv_heads) {
  require_memory(num_blocks, block_bytes_);
  region_ = memory_region(num_blocks * block_bytes_);
  constexpr std::size_t piece = std::size_t{16} << 20;
  const std::size_t pieces = (region_.size() + piece - 1) / piece;
  pool.run(static_cast<std::uint32_t>(pieces), [&](std::uint32_t i) {
    const std::size_t begin = i * piece;
    std::memset(region_.data() + begin, 0, std::min(piece, region_.size() - begin));
  });
}

kv_view kv_pool::layer(std::uint32_t layer) const {
  kv_view view;
  view.base =
      reinterpret_cast<std::uint16_t*>(region_.data()) + 2 * layer * kv_heads_ * head_halves_;
  view.block_stride = block_bytes_ / 2;
  view.head_stride = head_halves_;
  view.value_offset = kv_heads_ * head_halves_;
  view.block_size = block_size_;
  return view;
}

}  // namespace troupe::gpu
