#include "gpu/make_backend.hpp"

#include "gpu/cpu/backend_cpu.hpp"
#include "gpu/host_limits.hpp"

namespace troupe::gpu {

std::uint32_t threads_needed(const backend_options& options) {
  const std::uint32_t compute = options.threads ? options.threads : usable_cores();
  const std::uint32_t copier = 1;
  return compute - 1 + copier;  // the thread that drives the device computes too
}

std::unique_ptr<backend> make_backend(std::shared_ptr<const loaded_model> model,
                                      const backend_options& options) {
  return std::make_unique<cpu_backend>(std::move(model), options);
}

}  // namespace troupe::gpu
