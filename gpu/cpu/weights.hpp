// The model's weights on the CPU device: every matrix repacked once at load, norm vectors as padded
// floats. Owns the packed memory; keeps no pointer into the file except for the embedding rows, so
// the file must outlive it.
#pragma once
#include <vector>

#include "gpu/cpu/memory_region.hpp"
#include "gpu/cpu/worker_pool.hpp"
#include "gpu/kernels/embedding.hpp"
#include "gpu/kernels/tile.hpp"
#include "gpu/model/gguf.hpp"
#include "gpu/model/model_config.hpp"

namespace troupe::gpu {

struct layer_weights {
  packed_matrix q, k, v, o, gate, up, down;
  const float* attention_norm = nullptr;  ///< [width], padded to 32 with zeros
  const float* ffn_norm = nullptr;
};

class model_weights {
 public:
  /// Throws model_error for a missing tensor, std::bad_alloc.
  model_weights(const gguf_file& file, const model_config& config, worker_pool& pool);

  const std::vector<layer_weights>& layers() const { return layers_; }
  const packed_matrix& head() const { return head_; }
  const float* output_norm() const { return output_norm_; }
  void embed(std::uint32_t token, float* out) const;
  std::uint64_t bytes() const { return region_.size(); }

 private:
  memory_region region_;
  std::vector<layer_weights> layers_;
  packed_matrix head_;
  const float* output_norm_ = nullptr;
  embedding_params embedding_;
};

}  // namespace troupe::gpu
