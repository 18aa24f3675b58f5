// What the product knows of a kind of device before it makes one, and what it does alike for all of
// them: choosing by name, the type of the KV cache. Below the devices; it names none.
#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/backend.hpp"
#include "gpu/kv_format.hpp"
#include "gpu/model/loaded_model.hpp"

namespace troupe::gpu {

struct backend_options {
  std::uint32_t block_size = 16;        ///< tokens of a KV block
  std::uint32_t num_blocks = 0;         ///< > 0; the pool is allocated and touched at construction
  std::string device = "auto";          ///< a row's name, or the first row whose machine is present
  std::string kv_cache_dtype = "auto";  ///< one that the device stores, or the first of those
  std::string kv_cache_dtype_k = "auto";  ///< of K alone; auto: as kv_cache_dtype
  std::string kv_cache_dtype_v = "auto";  ///< of V alone
  /// "FIRST,LAST": so many of the first and last layers are stored as "auto" does; empty: none.
  std::string kv_cache_precise_layers = {};
  bool profile = false;  ///< keep backend::profile(); measures the machine's limits at the start
  /// Options only some devices have, by their name on the command line; each device reads its own.
  /// An empty value is as if the option were not there.
  std::map<std::string, std::string> own = {};
};

/// What the product must know of a device before it makes one.
struct device_kind {
  std::string_view name;
  std::vector<std::string_view> options;  ///< of backend_options::own
  std::vector<kv_dtype> kv_dtypes;        ///< the first one is "auto"
  bool (*present)() = nullptr;            ///< the machine has it
  /// Bytes that weights of these types and shapes take on the device; their data is not read.
  std::uint64_t (*weight_bytes)(std::span<const gguf_tensor>) = nullptr;
  /// Bytes that can still be taken where weights and KV blocks lie.
  std::uint64_t (*available_memory)() = nullptr;
  std::uint32_t (*threads_needed)(const backend_options&) = nullptr;  ///< that it starts in all
  std::unique_ptr<backend> (*make)(std::shared_ptr<const loaded_model>,
                                   const backend_options&) = nullptr;
};

/// Those of this build, in the order in which "auto" tries them; the list is in make_backend.cpp.
std::span<const device_kind> device_kinds();

/// Throws std::invalid_argument, naming the value and the list, for a name that no row has and for
/// a device that this machine lacks.
const device_kind& choose_device(const std::string& name,
                                 std::span<const device_kind> kinds = device_kinds());

/// How `kind` stores the model's KV cache. Throws std::invalid_argument for a type it does not
/// store, for this model's head dimension or at all, and for precise layers that the model lacks.
kv_format kv_format_of(const device_kind& kind, const model_config&, const backend_options&);

}  // namespace troupe::gpu
