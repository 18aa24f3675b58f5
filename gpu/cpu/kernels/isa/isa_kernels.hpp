// The functions that isa_table.cpp collects for one instruction set. Contracts: gpu/kernels/*.hpp.
#pragma once
#include "gpu/cpu/kernels/isa/simd.hpp"
#include "gpu/cpu/kernels/kernel_table.hpp"

namespace troupe::gpu::TROUPE_ISA_NS {

void matmul(const matmul_params&);
void gate_up(const gate_up_params&);
void quantize(const quantize_params&);
void rms_norm(const rms_norm_params&);
void rope(const rope_params&);
void attention(const attention_params&);
void attention_splits(const attention_params&, std::uint32_t begin, std::uint32_t end, float* sums);
void attention_merge(const attention_params&, const float* sums);
logit_stats stats(const logit_stats_params&);
double exp_sum(const exp_sum_params&);
std::uint64_t dot_loop(std::uint64_t rounds);
std::uint64_t float_loop(std::uint64_t rounds);
void read_loop(const std::byte*, std::size_t bytes);

/// One panel times one tile of 1 to 8 rows: panel, input, tile, whether it comes from memory, out,
/// stride of out, residual or null.
/// In matmul.cpp alone, since its instances are most of the code.
using tile_function = void (*)(const packed_matrix&, std::uint32_t, const activation&,
                               std::uint32_t, bool, float*, std::size_t, const float*);
tile_function tile_for(weight_kind kind, std::uint32_t rows);

}  // namespace troupe::gpu::TROUPE_ISA_NS
