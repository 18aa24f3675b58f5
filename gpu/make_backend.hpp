// From a model file to a device: what `troupe serve` and the tests start with.
#pragma once
#include <memory>
#include <string>

#include "gpu/backend.hpp"
#include "gpu/model/loaded_model.hpp"

namespace troupe::gpu {

struct backend_options {
  std::uint32_t threads = 0;      ///< 0: the cores this process may use (affinity and cgroup quota)
  std::string isa = "auto";       ///< auto, avx512-vnni, avx2, portable
  std::uint32_t block_size = 16;  ///< 16 or 32
  std::uint32_t num_blocks = 0;   ///< > 0; the pool is allocated and touched here
  bool profile = false;  ///< keep backend::profile(); measures the machine's limits at the start
  bool panel_cache = false;  ///< keep the repacked weights in MODEL.panels, and start from them
};

/// Threads that a device with these options starts in all.
std::uint32_t threads_needed(const backend_options&);

/// Throws model_error, thread_error or std::invalid_argument (unknown or unsupported isa, too
/// little memory with both numbers).
std::unique_ptr<backend> make_backend(std::shared_ptr<const loaded_model>, const backend_options&);

}  // namespace troupe::gpu
