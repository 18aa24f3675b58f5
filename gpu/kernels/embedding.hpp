// One row of a tensor as 32-bit floats, read from the mapped file: how a token's embedding is
// looked up. `row` < rows; writes `cols` floats. No instruction-set variants: it is a few hundred
// elements per token.
#pragma once
#include "gpu/kernels/tile.hpp"

namespace troupe::gpu {

struct embedding_params {
  weight_kind kind = weight_kind::f32;
  const std::byte* rows = nullptr;  ///< the tensor as the file holds it
  std::uint32_t cols = 0;
  std::uint64_t row = 0;
  float* out = nullptr;
};

void embedding_row(const embedding_params&);
/// Bytes of one row in the file.
std::size_t file_row_bytes(weight_kind kind, std::uint32_t cols);

}  // namespace troupe::gpu
