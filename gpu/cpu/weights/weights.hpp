// The model's weights on the CPU device: every matrix repacked once at load, or read from the file
// that an earlier start left beside the model; norm vectors as padded floats. Owns the packed
// memory; reads the model file while it is constructed and keeps no pointer into it.
#pragma once
#include <span>
#include <vector>

#include "gpu/cpu/kernels/tile.hpp"
#include "gpu/cpu/threads/worker_pool.hpp"
#include "gpu/memory_region.hpp"
#include "gpu/model/gguf/gguf.hpp"
#include "gpu/model/model_config.hpp"
#include "gpu/weight_report.hpp"

namespace troupe::gpu {

struct layer_weights {
  packed_matrix q, k, v, o, gate, up, down;
  const float* attention_norm = nullptr;  ///< [width], padded to 32 with zeros
  const float* ffn_norm = nullptr;
};

class model_weights {
 public:
  /// Throws model_error for a missing tensor or a file whose data was released, std::bad_alloc.
  /// `cached`: with the file of panels.
  model_weights(const gguf_file& file, const model_config& config, worker_pool& pool,
                bool cached = false);

  const std::vector<layer_weights>& layers() const { return layers_; }
  const packed_matrix& head() const { return head_; }
  const float* output_norm() const { return output_norm_; }
  /// Row `token` of the embedding: of the head's panels where the two are one tensor.
  void embed(std::uint32_t token, float* out) const;
  std::uint64_t bytes() const { return region_.size(); }
  /// Everything repacked, one after another.
  std::span<const std::byte> memory() const { return {region_.data(), region_.size()}; }
  const weight_report& report() const { return report_; }

 private:
  struct source;
  std::uint64_t offset_of(const void* piece) const;
  void lay_out(const source&);
  void pack(const gguf_file&, const source&, worker_pool&);
  void use_cache(const gguf_file&, const source&, worker_pool&);

  memory_region region_;
  std::vector<layer_weights> layers_;
  packed_matrix head_;
  packed_matrix embedding_;  // without data where the head is the embedding too
  const float* output_norm_ = nullptr;
  weight_report report_;
};

}  // namespace troupe::gpu
