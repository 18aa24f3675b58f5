// The table of one instruction set; compiled once per set.
#include "gpu/cpu/kernels/isa/isa_kernels.hpp"

namespace troupe::gpu::TROUPE_ISA_NS {

extern const kernel_table table;

#if defined(TROUPE_ISA_AVX512)
#define TROUPE_ISA_NAME "avx512-vnni"
#elif defined(TROUPE_ISA_AVX2)
#define TROUPE_ISA_NAME "avx2"
#else
#define TROUPE_ISA_NAME "portable"
#endif

const kernel_table table = {
    TROUPE_ISA_NAME,  matmul,          gate_up, quantize, rms_norm, rope,       attention,
    attention_splits, attention_merge, stats,   exp_sum,  dot_loop, float_loop, read_loop};

}  // namespace troupe::gpu::TROUPE_ISA_NS
