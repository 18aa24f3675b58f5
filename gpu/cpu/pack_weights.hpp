// From a tensor as the file holds it to panels of 16 rows (layout: gpu/kernels/tile.hpp). Exact:
// codes and scales are moved, never rounded. Owns nothing; the destination is zeroed memory of
// packed_bytes().
#pragma once
#include "gpu/kernels/tile.hpp"

namespace troupe::gpu {

/// The shape of the packed form; `data` still null.
packed_matrix packed_shape(weight_kind kind, std::uint32_t rows, std::uint32_t cols);
std::size_t packed_bytes(const packed_matrix&);
/// Fills panels [begin, end) of `to` (m.data's memory) from the file's rows. Panels are independent
/// of each other.
void pack_panels(const packed_matrix& m, const std::byte* file_rows, std::uint32_t begin,
                 std::uint32_t end, std::byte* to);

}  // namespace troupe::gpu
