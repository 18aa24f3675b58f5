// Measures what this machine's cores and memory can do at most, in one instruction set, on the
// threads of one pool. Takes some tenths of a second; the best of several tries counts, since
// others on the machine only ever slow it down.
#pragma once
#include <span>
#include <vector>

#include "gpu/cpu/kernels/kernel_table.hpp"
#include "gpu/cpu/threads/worker_pool.hpp"
#include "gpu/cpu/weights/weights.hpp"
#include "gpu/device_profile.hpp"

namespace troupe::gpu {

using byte_spans = std::vector<std::span<const std::byte>>;

double measure_dots_per_s(const kernel_table& kernels, worker_pool& workers);
double measure_floats_per_s(const kernel_table& kernels, worker_pool& workers);
/// All of `memory` read again and again, cut into pieces for the threads; each part of it counts
/// with its fastest time.
double measure_bytes_per_s(const kernel_table& kernels, worker_pool& workers,
                           const byte_spans& memory);

/// Every packed matrix, in the order of a step.
byte_spans packed_bytes_of(const model_weights& weights);
/// The three together; reading is that of the weights.
machine_limits measure_limits(const kernel_table& kernels, worker_pool& workers,
                              const model_weights& weights);

}  // namespace troupe::gpu
