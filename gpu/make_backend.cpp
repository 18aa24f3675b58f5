#include "gpu/make_backend.hpp"

#include <algorithm>
#include <stdexcept>

#include "gpu/cpu/cpu_device.hpp"

namespace troupe::gpu {
namespace {

void check_own_options(const device_kind& kind, const backend_options& options) {
  for (const auto& [name, value] : options.own) {
    if (value.empty()) continue;
    if (std::find(kind.options.begin(), kind.options.end(), name) != kind.options.end()) continue;
    throw std::invalid_argument("--" + name + ": the device " + std::string(kind.name) +
                                " has no such option");
  }
}

}  // namespace

std::span<const device_kind> device_kinds() {
  static const std::vector<device_kind> kinds{cpu_device_kind()};
  return kinds;
}

std::uint32_t threads_needed(const backend_options& options, std::span<const device_kind> kinds) {
  return choose_device(options.device, kinds).threads_needed(options);
}

std::unique_ptr<backend> make_backend(std::shared_ptr<const loaded_model> model,
                                      const backend_options& options,
                                      std::span<const device_kind> kinds) {
  const device_kind& kind = choose_device(options.device, kinds);
  check_own_options(kind, options);
  return kind.make(std::move(model), options);
}

}  // namespace troupe::gpu
