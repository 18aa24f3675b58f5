#include "gpu/cpu/kv_pool.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

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

kv_pool::kv_pool(kv_format format, worker_pool& pool) : format_(std::move(format)) {
  require_memory(num_blocks(), block_bytes());
  region_ = memory_region(format_.pool_bytes());
  constexpr std::size_t piece = std::size_t{16} << 20;
  const std::size_t pieces = (region_.size() + piece - 1) / piece;
  pool.run(static_cast<std::uint32_t>(pieces), [&](std::uint32_t i) {
    const std::size_t begin = i * piece;
    std::memset(region_.data() + begin, 0, std::min(piece, region_.size() - begin));
  });
}

kv_view kv_pool::layer(std::uint32_t layer) const {
  const kv_types& types = format_.types_of(layer);
  const auto side = [&](const kv_dtype& dtype) {
    return kv_side{dtype.encoding, format_.head_bytes(dtype),
                   dtype.head_scale_bytes ? format_.scales_offset(dtype) : 0};
  };
  kv_view view;
  view.base = region_.data() + format_.layer_offset(layer);
  view.block_stride = block_bytes();
  view.value_offset = format_.value_offset(layer);
  view.block_size = block_size();
  view.key = side(types.k);
  view.value = side(types.v);
  return view;
}

}  // namespace troupe::gpu
