// The transformer pass over one segment: embeddings in, hidden rows and logits out. Owns the
// working buffers (bounded by the segment size, allocated once); borrows weights, KV pool, kernels
// and workers. Knows rows, not requests.
#pragma once
#include <span>

#include "gpu/cpu/attention_cut.hpp"
#include "gpu/cpu/kernels/kernel_table.hpp"
#include "gpu/cpu/kv_pool.hpp"
#include "gpu/cpu/step_profile.hpp"
#include "gpu/cpu/threads/worker_pool.hpp"
#include "gpu/cpu/weights/weights.hpp"
#include "gpu/model/architecture.hpp"
#include "gpu/step_layout.hpp"

namespace troupe::gpu {

class forward_pass {
 public:
  static constexpr std::uint32_t segment_rows = 512;  ///< most rows of one segment
  static constexpr std::uint32_t logit_rows = 32;     ///< most rows of logits at a time

  /// What it computes; the check of a model's file refuses families that need more.
  static constexpr ability_set computes{ability::rms_norm, ability::rope_pairs, ability::silu_gate};

  /// Throws std::invalid_argument for a family that needs more than it computes.
  forward_pass(const model_config& config, const model_weights& weights, const kv_pool& kv,
               const kernel_table& kernels, worker_pool& workers);

  /// All layers for the segment's rows; writes their K and V.
  void run(const step_batch& batch, const step_segment& segment);
  /// Logits of at most logit_rows rows of the last run: row i at [i * logit_stride()].
  float* logits(std::span<const std::uint32_t> rows);
  std::size_t logit_stride() const { return logit_stride_; }
  /// Of the working buffers, in whole pages.
  std::uint64_t bytes() const { return region_.size(); }
  /// Records the time of every kernel from now on; null: stops. It must outlive the runs.
  void profile_to(step_profile* profile) { profile_ = profile; }

 private:
  /// The kernels of what differs between families, by the row of the model's own.
  struct family_kernels {
    decltype(kernel_table::rms_norm) norm;
    decltype(kernel_table::rope) positions;
    decltype(kernel_table::gate_up) activation;
  };
  static family_kernels kernels_of(const architecture& family, const kernel_table& kernels);

  struct product {
    const packed_matrix* weights;
    float* out;
    std::size_t stride;
    const float* add;
  };

  /// Called twice: without a region the pieces are counted, with it they are taken.
  void take_all();
  std::byte* take(std::size_t bytes);
  activation take_activation(std::uint32_t rows, std::uint32_t cols, bool codes, bool values);
  float* take_floats(std::size_t count);
  void embed(const step_segment& segment);
  void normalize(const float* weight, const std::uint32_t* rows, std::uint32_t count,
                 const activation& out);
  void multiply(std::span<const product> products, std::uint32_t rows, const activation& in);
  void rotate_and_store(const step_segment& segment, const kv_view& kv);
  std::uint32_t attention_rows(std::uint32_t rows, std::uint32_t heads) const;
  void attend(const step_batch& batch, const step_segment& segment, const kv_view& kv);
  void attend_piece(const attention_piece& piece);
  void quantize_attention(std::uint32_t rows);
  void gate_and_up(const layer_weights& layer, std::uint32_t rows);
  /// `cost` is called only while a profile is kept.
  template <class Cost>
  void lap(kernel_kind kind, Cost&& cost) {
    if (profile_) profile_->lap(kind, cost());
  }

  const model_config& config_;
  const model_weights& weights_;
  const kv_pool& kv_;
  const kernel_table& kernels_;
  const family_kernels family_;
  worker_pool& workers_;
  memory_region region_;
  std::size_t counted_bytes_ = 0;
  std::size_t hidden_stride_, q_stride_, kv_stride_, logit_stride_;
  float *hidden_, *q_, *k_, *v_, *logits_;
  float *cosines_, *sines_;
  activation normed_, attended_, gated_;
  activation fine_normed_;  ///< normed_, and the rest of its codes where a layer takes it
  std::vector<attention_params> tiles_;
  std::vector<attention_piece> pieces_;  ///< of the tiles, if some are cut
  std::vector<cut_tile> cut_tiles_;
  std::size_t split_room_;
  float* split_sums_;
  step_profile* profile_ = nullptr;
};

}  // namespace troupe::gpu
