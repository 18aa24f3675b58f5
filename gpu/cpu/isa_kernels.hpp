// The functions that isa_table.cpp collects for one instruction set. Contracts: gpu/kernels/*.hpp.
#pragma once
#include "gpu/cpu/kernel_table.hpp"
#include "gpu/cpu/simd.hpp"

namespace troupe::gpu::TROUPE_ISA_NS {

void matmul(const matmul_params&);
void gate_up(const gate_up_params&);
void quantize(const quantize_params&);
void rms_norm(const rms_norm_params&);
void rope(const rope_params&);
void attention(const attention_params&);
logit_stats stats(const logit_stats_params&);
double exp_sum(const exp_sum_params&);

}  // namespace troupe::gpu::TROUPE_ISA_NS
