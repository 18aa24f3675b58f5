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
  const auto found =
      std::find_if(kind.kv_dtypes.begin(), kind.kv_dtypes.end(), [&](const kv_dtype& dtype) {
        return options.kv_cache_dtype == "auto" || options.kv_cache_dtype == dtype.name;
      });
  if (found == kind.kv_dtypes.end())
    throw std::invalid_argument("--kv-cache-dtype: \"" + options.kv_cache_dtype +
                                "\" is not one of " + listed(kind.kv_dtypes, "auto") +
                                ", which the device " + std::string(kind.name) + " stores");
  return one_group_format(*found, model.layers, model.kv_heads, model.head_dim, options.block_size,
                          options.num_blocks);
}

}  // namespace troupe::gpu
