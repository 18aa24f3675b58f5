// From a loaded model to a device of this build.
#pragma once
#include <cstdint>
#include <memory>
#include <span>

#include "gpu/device_kind.hpp"

namespace troupe::gpu {

std::uint32_t threads_needed(const backend_options&,
                             std::span<const device_kind> kinds = device_kinds());

/// Throws model_error, thread_error or std::invalid_argument (an option this device does not have,
/// a value it cannot meet, too little memory with both numbers).
std::unique_ptr<backend> make_backend(std::shared_ptr<const loaded_model>, const backend_options&,
                                      std::span<const device_kind> kinds = device_kinds());

}  // namespace troupe::gpu
