#include "gpu/make_backend.hpp"

#include "gpu/cpu/backend_cpu.hpp"

namespace troupe::gpu {

std::unique_ptr<backend> make_backend(std::shared_ptr<const loaded_model> model,
                                      const backend_options& options) {
  return std::make_unique<cpu_backend>(std::move(model), options);
}

}  // namespace troupe::gpu
