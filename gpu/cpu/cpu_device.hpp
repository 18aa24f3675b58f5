// The CPU's row in the table of devices (gpu/device_kind.hpp), and the options only it has.
#pragma once
#include <cstdint>
#include <string>

#include "gpu/device_kind.hpp"

namespace troupe::gpu {

struct cpu_options {
  std::uint32_t threads = 0;  ///< "threads"; 0: the cores this process may use
  std::string isa = "auto";   ///< "isa": auto, avx512-vnni, avx2, portable
  bool panel_cache = false;   ///< "panel-cache": keep the repacked weights in MODEL.panels
};
/// Throws std::invalid_argument naming option and value.
cpu_options read_cpu_options(const backend_options&);

device_kind cpu_device_kind();

}  // namespace troupe::gpu
