// The ops of one instruction set as function pointers, and the choice among the sets at run time.
// Tables are constants; nothing here allocates or keeps state.
#pragma once
#include <string>
#include <vector>

#include "gpu/cpu/kernels/attention.hpp"
#include "gpu/cpu/kernels/gate_up.hpp"
#include "gpu/cpu/kernels/logit_stats.hpp"
#include "gpu/cpu/kernels/matmul.hpp"
#include "gpu/cpu/kernels/quantize.hpp"
#include "gpu/cpu/kernels/rms_norm.hpp"
#include "gpu/cpu/kernels/rope.hpp"

namespace troupe::gpu {

struct kernel_table {
  const char* isa;
  void (*matmul)(const matmul_params&);
  void (*gate_up)(const gate_up_params&);
  void (*quantize)(const quantize_params&);
  void (*rms_norm)(const rms_norm_params&);
  void (*rope)(const rope_params&);
  void (*attention)(const attention_params&);
  void (*attention_splits)(const attention_params&, std::uint32_t begin, std::uint32_t end,
                           float* sums);
  void (*attention_merge)(const attention_params&, const float* sums);
  logit_stats (*stats)(const logit_stats_params&);
  double (*exp_sum)(const exp_sum_params&);
  // What one core can do at most, for measurements: multiply-adds that stay in registers (8-bit
  // codes; 32-bit floats), answered is how many there were; and plain reading.
  std::uint64_t (*dot_loop)(std::uint64_t rounds);
  std::uint64_t (*float_loop)(std::uint64_t rounds);
  void (*read_loop)(const std::byte*, std::size_t bytes);
};

/// Best first: avx512-vnni, avx2, portable. Those this machine can run.
std::vector<const kernel_table*> supported_kernels();
/// "auto" or a name. Throws std::invalid_argument that lists what is supported.
const kernel_table& select_kernels(const std::string& isa);

}  // namespace troupe::gpu
