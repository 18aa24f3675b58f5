// 8-bit codes per row and 32 columns: scale = max|x| / 127, code = round to nearest even (x /
// scale). A block that holds a NaN or an infinity gets scale NaN and codes 0, so that the row, and
// only it, ends as NaN; max|x| < 1e-30 counts as zero. Reads 4 bytes and writes 1 + 12/32 bytes per
// element. `in` is [row][in_stride] with columns up to blocks * 32 readable and zero behind the
// last real one.
// Where `out` has rest_codes, what the codes leave of the values is quantized so once more.
#pragma once
#include "gpu/cpu/kernels/tile.hpp"

namespace troupe::gpu {

struct quantize_params {
  const float* in = nullptr;
  std::size_t in_stride = 0;
  std::uint32_t row_begin = 0;
  std::uint32_t row_end = 0;
  activation out;  ///< codes and scales are written; values too when not null (may be `in` itself)
};

}  // namespace troupe::gpu
