// One row of a tensor as 32-bit floats, `cols` of them; `row` < rows. packed_row reads it out of
// the panels: how a token's embedding is looked up. embedding_row reads it as the file holds it, at
// load only. Both give the same bits. No instruction-set variants: it is a few hundred elements per
// token.
#pragma once
#include <cstddef>
#include <cstdint>

#include "gpu/cpu/kernels/tile.hpp"
#include "gpu/model/gguf/gguf_types.hpp"

namespace troupe::gpu {

struct embedding_params {
  tensor_type type = tensor_type::f32;  ///< a loadable one; cols is a multiple of its block
  const std::byte* rows = nullptr;      ///< the tensor as the file holds it
  std::uint32_t cols = 0;
  std::uint64_t row = 0;
  float* out = nullptr;
};

void embedding_row(const embedding_params&);
void packed_row(const packed_matrix&, std::uint32_t row, float* out);
/// Bytes of one row in the file.
std::size_t file_row_bytes(tensor_type type, std::uint32_t cols);

}  // namespace troupe::gpu
