#include "gpu/cpu/kernels/kernel_table.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <stdexcept>

namespace troupe::gpu {

namespace isa_avx512 {
extern const kernel_table table;
}
namespace isa_avx2 {
extern const kernel_table table;
}
namespace isa_portable {
extern const kernel_table table;
}

#if defined(__x86_64__)
namespace {

/// Conversion to and from half floats. Asked of the processor itself: clang's
/// __builtin_cpu_supports does not know this feature.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & bit_F16C) != 0;
}

}  // namespace
#endif

std::vector<const kernel_table*> supported_kernels() {
  std::vector<const kernel_table*> found;
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512vnni")) {
    found.push_back(&isa_avx512::table);
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c()) {
    found.push_back(&isa_avx2::table);
  }
#endif
  found.push_back(&isa_portable::table);
  return found;
}

const kernel_table& select_kernels(const std::string& isa) {
  const auto supported = supported_kernels();
  if (isa == "auto") return *supported.front();
  std::string names;
  for (const kernel_table* kernels : supported) {
    if (isa == kernels->isa) return *kernels;
    names += std::string(names.empty() ? "" : ", ") + kernels->isa;
  }
  throw std::invalid_argument("isa: \"" + isa + "\" is not supported here; supported: auto, " +
                              names);
}

}  // namespace troupe::gpu
