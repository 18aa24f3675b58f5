// Where a device's time goes, by kind of kernel, and how fast its machine can be. Plain values,
// made by a backend that was asked to (backend_options::profile); knows nothing of clocks, threads
// or how it is printed.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

namespace troupe::gpu {

/// In the order of a step. `other` is the step's rest: what lies between the kernels.
enum class kernel_kind : std::uint8_t {
  embedding,
  norm,  ///< and the quantization behind it
  qkv,
  rope_store,  ///< rotation, and K and V into their blocks
  attention,
  quantize,  ///< of what attention answers
  o,
  gate_up,  ///< and silu and quantization
  down,
  head,
  sampler,
  other
};
inline constexpr std::size_t kernel_kinds = static_cast<std::size_t>(kernel_kind::other) + 1;

constexpr const char* name_of(kernel_kind kind) {
  constexpr const char* names[kernel_kinds] = {"embedding", "norm",     "qkv",     "rope_store",
                                               "attention", "quantize", "o",       "gate_up",
                                               "down",      "head",     "sampler", "other"};
  return names[static_cast<std::size_t>(kind)];
}

/// What was asked of the kernels of one kind, and how long it took. Operations are multiply-adds;
/// of kernels without any, elements. Bytes are those no cache can save: weights once per call, K
/// and V once per sequence and layer, and the rows that come in (4 bytes a value) where a kernel
/// reads neither.
struct kernel_cost {
  std::uint64_t calls = 0;  ///< forks and joins
  std::uint64_t nanoseconds = 0;
  std::uint64_t dots = 0;    ///< operations on 8-bit codes
  std::uint64_t floats = 0;  ///< operations on 32-bit floats
  std::uint64_t bytes = 0;

  kernel_cost& operator+=(const kernel_cost& other) {
    calls += other.calls;
    nanoseconds += other.nanoseconds;
    dots += other.dots;
    floats += other.floats;
    bytes += other.bytes;
    return *this;
  }
  bool operator==(const kernel_cost&) const = default;
};

/// Measured, not looked up: all threads of the device together, in the instruction set it uses.
struct machine_limits {
  double dots_per_s = 0;    ///< 8-bit multiply-adds on registers
  double floats_per_s = 0;  ///< 32-bit multiply-adds on registers
  double bytes_per_s = 0;   ///< the weights read through and through
};

/// Seconds below which no kernel of this cost can be: arithmetic and reading at their limits, at
/// the same time.
inline double least_seconds(const kernel_cost& cost, const machine_limits& limits) {
  if (limits.dots_per_s <= 0 || limits.floats_per_s <= 0 || limits.bytes_per_s <= 0) return 0;
  const double arithmetic = static_cast<double>(cost.dots) / limits.dots_per_s +
                            static_cast<double>(cost.floats) / limits.floats_per_s;
  const double reading = static_cast<double>(cost.bytes) / limits.bytes_per_s;
  return arithmetic > reading ? arithmetic : reading;
}

struct device_profile {
  bool on = false;  ///< false: everything below is zero
  std::uint64_t steps = 0;
  std::uint64_t rows = 0;              ///< tokens that went through the layers
  std::uint64_t step_nanoseconds = 0;  ///< the sum of `kernels`
  std::uint64_t idle_nanoseconds = 0;  ///< between the steps, outside the device
  std::array<kernel_cost, kernel_kinds> kernels{};
  machine_limits limits;

  const kernel_cost& operator[](kernel_kind kind) const {
    return kernels[static_cast<std::size_t>(kind)];
  }
  kernel_cost& operator[](kernel_kind kind) { return kernels[static_cast<std::size_t>(kind)]; }
};

}  // namespace troupe::gpu
