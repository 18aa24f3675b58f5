// From a tensor as the file holds it to panels of 16 rows (layout: gpu/cpu/kernels/tile.hpp).
// Exact: codes are moved, scales moved or multiplied out where the product is exact, nothing is
// rounded. Owns nothing; the destination is zeroed memory of packed_bytes().
#pragma once
#include <span>

#include "gpu/cpu/kernels/tile.hpp"
#include "gpu/model/gguf/gguf.hpp"
#include "gpu/model/gguf/gguf_types.hpp"

namespace troupe::gpu {

/// The form a loadable type is packed into: its own, or one that has room for all its bits.
weight_kind panel_kind(tensor_type);
/// The shape of the packed form; `data` still null. `cols` is a multiple of the type's block.
packed_matrix packed_shape(tensor_type type, std::uint32_t rows, std::uint32_t cols);
std::size_t packed_bytes(const packed_matrix&);

// The one formula of a weight's size; the loader, the plan of the memory and `troupe estimate` all
// count with it. Each weight begins on a line of 64 bytes.
std::size_t padded_floats(std::uint64_t length);  ///< of a vector: up to a whole block of 32
std::uint64_t vector_bytes(std::uint64_t length);
std::uint64_t matrix_bytes(const packed_matrix&);
/// All of them together, in the whole pages that the device takes. Only types and shapes are read;
/// the mapped file, which the kernel can drop, counts for nothing.
std::uint64_t packed_weight_bytes(std::span<const gguf_tensor> tensors);
/// Fills panels [begin, end) of `to` (m.data's memory) from the file's rows; m is
/// packed_shape(type, ...). Panels are independent of each other.
void pack_panels(const packed_matrix& m, tensor_type type, const std::byte* file_rows,
                 std::uint32_t begin, std::uint32_t end, std::byte* to);

}  // namespace troupe::gpu
