#include "gpu/kv_format.hpp"

#include <algorithm>
#include <charconv>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace troupe::gpu {
namespace {

/// Of `tokens` tokens in one layer and head, K or V alone.
std::uint64_t head_part(const kv_dtype& dtype, std::uint64_t head_dim, std::uint64_t tokens) {
  return (head_dim * dtype.value_bits / 8 + dtype.head_scale_bytes) * tokens;
}

/// nullopt: no number that ends at a comma or at the end.
std::optional<std::uint32_t> take_number(std::string_view& text) {
  std::uint32_t value = 0;
  const auto end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, value);
  if (read.ec != std::errc{}) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(read.ptr - text.data()));
  return value;
}

}  // namespace

std::string kv_types::name() const {
  return k == v ? std::string(k.name) : std::string(k.name) + "/" + std::string(v.name);
}

std::optional<std::uint64_t> kv_token_bytes(const kv_types& types, std::uint64_t layers,
                                            std::uint64_t kv_heads, std::uint64_t head_dim) {
  if (head_dim > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  std::uint64_t bytes = head_part(types.k, head_dim, 1) + head_part(types.v, head_dim, 1);
  for (const auto factor : {layers, kv_heads})
    if (__builtin_mul_overflow(bytes, factor, &bytes)) return std::nullopt;
  return bytes;
}

std::string kv_token_formula(const kv_types& types, std::uint64_t layers, const kv_types& precise,
                             std::uint64_t precise_layers, std::uint64_t kv_heads,
                             std::uint64_t head_dim) {
  const auto heads = [&](std::uint64_t of) {
    return std::to_string(of) + " layers x " + std::to_string(kv_heads) + " kv heads x ";
  };
  if (precise_layers == 0 && types.k == types.v && types.k.head_scale_bytes == 0)
    return "2 x " + heads(layers) + std::to_string(head_dim) + " head dim x " +
           std::to_string(types.k.value_bits / 8) + " bytes";
  const auto sum = [&](std::uint64_t of, const kv_types& one) {
    return heads(of) + "(" + std::to_string(head_part(one.k, head_dim, 1)) + " + " +
           std::to_string(head_part(one.v, head_dim, 1)) + ") bytes";
  };
  std::string out = layers ? sum(layers, types) : "";
  if (precise_layers) out += (layers ? " + " : "") + sum(precise_layers, precise);
  return out;
}

layer_ends read_precise_layers(const std::string& text, std::uint64_t layers) {
  layer_ends out;
  if (text.empty()) return out;
  std::string_view rest = text;
  const auto first = take_number(rest);
  const bool comma = first && rest.substr(0, 1) == ",";
  if (comma) rest.remove_prefix(1);
  const auto last = comma ? take_number(rest) : std::nullopt;
  if (!last || !rest.empty())
    throw std::invalid_argument("--kv-cache-precise-layers: \"" + text +
                                "\" is not FIRST,LAST, two numbers of layers such as 2,1");
  if (std::uint64_t{*first} + *last > layers)
    throw std::invalid_argument("--kv-cache-precise-layers: " + text + " are " +
                                std::to_string(std::uint64_t{*first} + *last) +
                                " layers, the model has " + std::to_string(layers));
  return {*first, *last};
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
  std::uint64_t bytes = 0;
  for (const auto& group : groups)
    for (const auto layer : group.layers)
      bytes += kv_token_bytes(types_of(layer), 1, kv_heads, head_dim).value();
  return bytes;
}

std::string kv_format::token_formula() const {
  std::uint64_t layers = 0;
  for (const auto& group : groups) layers += group.layers.size();
  return kv_token_formula(types, layers - precise_layers.size(), precise, precise_layers.size(),
                          kv_heads, head_dim);
}

std::uint64_t kv_format::token_row_bytes() const {
  return token_bytes() * block_size;
}

bool kv_format::is_precise(std::uint32_t layer) const {
  return std::binary_search(precise_layers.begin(), precise_layers.end(), layer);
}

std::string kv_format::types_name() const {
  if (precise_layers.empty() || types == precise) return types.name();
  return types.name() + ", " + std::to_string(precise_layers.size()) +
         (precise_layers.size() == 1 ? " layer " : " layers ") + precise.name();
}

std::uint64_t kv_format::head_bytes(const kv_dtype& dtype) const {
  return head_part(dtype, head_dim, block_size);
}

std::uint64_t kv_format::scales_offset(const kv_dtype& dtype) const {
  return head_bytes(dtype) - std::uint64_t{dtype.head_scale_bytes} * block_size;
}

std::uint64_t kv_format::value_offset(std::uint32_t layer) const {
  return head_bytes(types_of(layer).k) * kv_heads;
}

std::uint64_t kv_format::layer_bytes(std::uint32_t layer) const {
  return kv_token_bytes(types_of(layer), 1, kv_heads, head_dim).value() * block_size;
}

std::uint64_t kv_format::layer_offset(std::uint32_t layer) const {
  for (const auto& group : groups) {
    std::uint64_t offset = 0;
    for (const auto one : group.layers) {
      if (one == layer) return offset;
      offset += layer_bytes(one);
    }
  }
  throw std::out_of_range("layer " + std::to_string(layer) + " is in no group");
}

std::uint64_t kv_format::block_bytes(std::size_t group) const {
  std::uint64_t bytes = 0;
  for (const auto layer : groups.at(group).layers) bytes += layer_bytes(layer);
  return bytes;
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

kv_format one_group_format(const kv_types& types, std::uint32_t layers, std::uint32_t kv_heads,
                           std::uint32_t head_dim, std::uint32_t block_size,
                           std::uint32_t num_blocks) {
  std::vector<std::uint32_t> all(layers);
  std::iota(all.begin(), all.end(), 0u);
  return grouped_format(types, {std::move(all)}, kv_heads, head_dim, block_size, num_blocks);
}

kv_format grouped_format(const kv_types& types, std::vector<std::vector<std::uint32_t>> groups,
                         std::uint32_t kv_heads, std::uint32_t head_dim, std::uint32_t block_size,
                         std::uint32_t num_blocks) {
  kv_format out;
  out.types = types;
  out.block_size = block_size;
  out.kv_heads = kv_heads;
  out.head_dim = head_dim;
  std::uint32_t first = 0;
  for (auto& layers : groups) {
    out.groups.push_back({std::move(layers), 0, first, num_blocks});
    first += num_blocks;
  }
  return out;
}

}  // namespace troupe::gpu
