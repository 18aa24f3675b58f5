#include "gpu/kv_format.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace troupe::gpu {
namespace {

/// Of `tokens` tokens in one layer and head, K or V alone.
std::uint64_t head_part(const kv_dtype& dtype, std::uint64_t head_dim, std::uint64_t tokens) {
  return (head_dim * dtype.value_bits / 8 + dtype.head_scale_bytes) * tokens;
}

}  // namespace

std::optional<std::uint64_t> kv_token_bytes(const kv_dtype& dtype, std::uint64_t layers,
                                            std::uint64_t kv_heads, std::uint64_t head_dim) {
  if (head_dim > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  std::uint64_t bytes = 2;  // K and V
  for (const auto factor : {layers, kv_heads, head_part(dtype, head_dim, 1)})
    if (__builtin_mul_overflow(bytes, factor, &bytes)) return std::nullopt;
  return bytes;
}

std::uint32_t kv_format::num_blocks() const {
  return std::accumulate(groups.begin(), groups.end(), std::uint32_t{0},
                         [](std::uint32_t sum, const auto& group) { return sum + group.blocks; });
}

std::uint64_t kv_format::pool_tokens() const {
  if (groups.empty()) return 0;
  const auto least =
      std::min_element(groups.begin(), groups.end(),
                       [](const auto& a, const auto& b) { return a.blocks < b.blocks; });
  return std::uint64_t{least->blocks} * block_size;
}

std::uint64_t kv_format::pool_bytes() const {
  std::uint64_t bytes = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) bytes += groups[g].blocks * block_bytes(g);
  return bytes;
}

std::uint64_t kv_format::token_bytes() const {
  std::uint64_t layers = 0;
  for (const auto& group : groups) layers += group.layers.size();
  return kv_token_bytes(dtype, layers, kv_heads, head_dim).value();
}

std::uint64_t kv_format::token_row_bytes() const {
  return token_bytes() * block_size;
}

std::uint64_t kv_format::head_bytes() const {
  return head_part(dtype, head_dim, block_size);
}

std::uint64_t kv_format::value_offset() const {
  return head_bytes() * kv_heads;
}

std::uint64_t kv_format::layer_bytes() const {
  return kv_token_bytes(dtype, 1, kv_heads, head_dim).value() * block_size;
}

std::uint64_t kv_format::block_bytes(std::size_t group) const {
  return layer_bytes() * groups.at(group).layers.size();
}

std::uint64_t kv_format::largest_block_bytes() const {
  std::uint64_t most = 0;
  for (std::size_t g = 0; g < groups.size(); ++g) most = std::max(most, block_bytes(g));
  return most;
}

std::size_t kv_format::group_of_block(std::uint32_t block) const {
  for (std::size_t g = 0; g < groups.size(); ++g)
    if (block - groups[g].first_block < groups[g].blocks) return g;  // below it: wraps around
  return groups.size();
}

kv_format one_group_format(const kv_dtype& dtype, std::uint32_t layers, std::uint32_t kv_heads,
                           std::uint32_t head_dim, std::uint32_t block_size,
                           std::uint32_t num_blocks) {
  std::vector<std::uint32_t> all(layers);
  std::iota(all.begin(), all.end(), 0u);
  return grouped_format(dtype, {std::move(all)}, kv_heads, head_dim, block_size, num_blocks);
}

kv_format grouped_format(const kv_dtype& dtype, std::vector<std::vector<std::uint32_t>> groups,
                         std::uint32_t kv_heads, std::uint32_t head_dim, std::uint32_t block_size,
                         std::uint32_t num_blocks) {
  kv_format out{dtype, block_size, kv_heads, head_dim, {}};
  std::uint32_t first = 0;
  for (auto& layers : groups) {
    out.groups.push_back({std::move(layers), first, num_blocks});
    first += num_blocks;
  }
  return out;
}

}  // namespace troupe::gpu
