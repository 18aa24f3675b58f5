// How one value of K or V is coded: all that the kernels of a device have to know of kv_format.hpp,
// in a header without the standard library's containers.
#pragma once
#include <cstdint>

namespace troupe::gpu {

enum class kv_encoding : std::uint8_t { f16, bf16, f32, int8, fp8_e4m3, fp8_e5m2, int4 };

}  // namespace troupe::gpu
