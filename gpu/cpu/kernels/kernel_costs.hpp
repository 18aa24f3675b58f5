// What a call of each kind of kernel has to do, counted from shapes alone (the units are
// device_profile.hpp's). Pure.
#pragma once
#include <initializer_list>

#include "gpu/cpu/kernels/tile.hpp"
#include "gpu/device_profile.hpp"
#include "gpu/model/model_config.hpp"
#include "gpu/step_layout.hpp"

namespace troupe::gpu {

inline std::uint64_t panel_bytes_of(const packed_matrix& m) {
  return std::uint64_t{m.panels} * m.panel_bytes;
}

inline kernel_cost matmul_cost(std::initializer_list<const packed_matrix*> matrices,
                               std::uint64_t rows) {
  kernel_cost cost{.calls = 1};
  for (const packed_matrix* m : matrices) {
    (is_quantized(m->kind) ? cost.dots : cost.floats) += rows * m->rows * m->cols;
    cost.bytes += panel_bytes_of(*m);
  }
  return cost;
}

/// Rows of `width` values that come in as 32-bit floats.
inline kernel_cost row_cost(std::uint64_t rows, std::uint64_t width) {
  return {.calls = 1, .floats = rows * width, .bytes = rows * width * 4};
}

/// `kv_bytes`: of K and V of one token in the layer.
inline kernel_cost rope_cost(const model_config& config, std::uint64_t rows,
                             std::uint64_t kv_bytes) {
  return {.calls = 1,
          .floats = rows * (config.heads + config.kv_heads) * config.head_dim,
          .bytes = rows * kv_bytes};
}

/// Scores and weighted values, over the tokens each row sees.
inline kernel_cost attention_cost(const model_config& config, const step_segment& segment,
                                  std::uint64_t kv_bytes) {
  kernel_cost cost{.calls = 1};
  for (const slice_run& run : segment.runs) {
    const std::uint64_t rows = run.rows, before = run.position;
    const std::uint64_t seen = rows * before + rows * (rows + 1) / 2;
    cost.floats += 2 * seen * config.heads * config.head_dim;
    cost.bytes += (before + rows) * kv_bytes;
  }
  return cost;
}

}  // namespace troupe::gpu
