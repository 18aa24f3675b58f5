// One block of 32 columns of a quantized row, as codes, scales and a minimum: what the embedding
// look-up and the packing of most quantized types read a file's row through. The sub-block scales
// of Q4_K, Q5_K and Q6_K are an f16 times an integer of 6 or 8 bits: at most 11 + 8 significant
// bits, so the products are exact in f32 (and would not be in f16). Owns nothing.
#pragma once
#include <cstddef>
#include <cstdint>

#include "gpu/model/gguf/gguf_types.hpp"

namespace troupe::gpu {

/// weight of column c = scale[c / 16] * code[c], plus `minimum` where the type has one.
struct block_codes {
  std::int8_t code[32];
  float scale[2];
  float minimum;
};

/// Whether read_block answers for the type. Q4_0, Q4_1 and Q8_0 are packed from the file as it is.
bool has_block_codes(tensor_type);
/// Whether weights of the type have a minimum; of those with block codes.
bool has_minimum(tensor_type);
/// Columns 32 * block .. 32 * block + 31 of the row that starts at `row`.
block_codes read_block(tensor_type type, const std::byte* row, std::uint32_t block);

}  // namespace troupe::gpu
