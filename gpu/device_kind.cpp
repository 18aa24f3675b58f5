#include "gpu/device_kind.hpp"

#include <algorithm>
#include <stdexcept>

namespace troupe::gpu {
namespace {

/// "a, b, c" of the names of `rows`.
template <class Rows>
std::string listed(const Rows& rows, std::string out = {}) {
  for (const auto& row : rows) out += (out.empty() ? "" : ", ") + std::string(row.name);
  return out;
}

/// Codes of four bits lie in pairs of 16 dimensions.
constexpr std::uint32_t packed_dims = 32;

/// The type that `name`, the value of `option`, means; auto: `otherwise`.
kv_dtype chosen(const device_kind& kind, const model_config& model, const std::string& option,
                const std::string& name, const kv_dtype& otherwise) {
  if (name == "auto") return otherwise;
  const auto found = std::find_if(kind.kv_dtypes.begin(), kind.kv_dtypes.end(),
                                  [&](const kv_dtype& dtype) { return name == dtype.name; });
  if (found == kind.kv_dtypes.end())
    throw std::invalid_argument(option + ": \"" + name + "\" is not one of " +
                                listed(kind.kv_dtypes, "auto") + ", which the device " +
                                std::string(kind.name) + " stores");
  if (found->encoding == kv_encoding::int4 && model.head_dim % packed_dims != 0)
    throw std::invalid_argument(
        option + ": " + name + " needs a head dimension that is a multiple of " +
        std::to_string(packed_dims) + ", the model's is " + std::to_string(model.head_dim));
  return *found;
}

}  // namespace

const device_kind& choose_device(const std::string& name, std::span<const device_kind> kinds) {
  const auto found = std::find_if(kinds.begin(), kinds.end(), [&](const device_kind& kind) {
    return name == "auto" ? kind.present() : name == kind.name;
  });
  if (found == kinds.end())
    throw std::invalid_argument("--device: \"" + name + "\" is not one of " +
                                listed(kinds, "auto"));
  if (!found->present())
    throw std::invalid_argument("--device: this machine has no \"" + name + "\"");
  return *found;
}

kv_format kv_format_of(const device_kind& kind, const model_config& model,
                       const backend_options& options) {
  const auto both =
      chosen(kind, model, "--kv-cache-dtype", options.kv_cache_dtype, kind.kv_dtypes.front());
  const kv_types types{chosen(kind, model, "--kv-cache-dtype-k", options.kv_cache_dtype_k, both),
                       chosen(kind, model, "--kv-cache-dtype-v", options.kv_cache_dtype_v, both)};
  auto out = one_group_format(types, model.layers, model.kv_heads, model.head_dim,
                              options.block_size, options.num_blocks);
  out.precise = kind.kv_dtypes.front();
  const auto ends = read_precise_layers(options.kv_cache_precise_layers, model.layers);
  for (std::uint32_t layer = 0; layer < model.layers; ++layer)
    if (layer < ends.first || layer >= model.layers - ends.last)
      out.precise_layers.push_back(layer);
  return out;
}

}  // namespace troupe::gpu
