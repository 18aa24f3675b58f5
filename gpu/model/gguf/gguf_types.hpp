// The tensor types of a GGUF file: their numbers, names and sizes, and which of them a device can
// compute with. Constants alone; owns nothing.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace troupe::gpu {

/// ggml's numbering. The named ones can be loaded; any other number can stand in a file opened for
/// inspection (gguf_file::open_any).
enum class tensor_type : std::uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  bf16 = 30
};

/// Whether a device can compute with it: one of the named ones.
bool loadable(tensor_type);
/// All of them, in the order of their numbers.
std::vector<tensor_type> loadable_types();
/// Their names, to say what is supported: "F32, F16, ... and BF16".
std::string loadable_names();

// These take any number.
const char* name_of(tensor_type);           ///< "Q4_K"; "unknown" when ggml has no such type
std::uint32_t block_elements(tensor_type);  ///< elements of a block; 0 when unknown
std::uint32_t block_bytes(tensor_type);     ///< bytes of a block; 0 when unknown

}  // namespace troupe::gpu
