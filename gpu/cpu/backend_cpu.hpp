// The host CPU as a device (gpu/backend.hpp): puts weights, KV pool, forward pass, sampler and
// copier together. One thread drives plan and run; copy may be called from any. Owns everything but
// the model file, which it shares.
#pragma once
#include <functional>
#include <optional>
#include <span>

#include "gpu/backend.hpp"
#include "gpu/cpu/block_copier.hpp"
#include "gpu/cpu/cpu_device.hpp"
#include "gpu/cpu/forward.hpp"
#include "gpu/cpu/sampler.hpp"

namespace troupe::gpu {

class cpu_backend final : public backend {
 public:
  /// Reads its own options too. Throws model_error, std::invalid_argument.
  cpu_backend(std::shared_ptr<const loaded_model> model, const backend_options& options);

  const device_info& info() const override { return info_; }
  std::unique_ptr<planned_step> plan(step_batch batch) override;
  step_result run(planned_step& step) override;
  void copy(block_copy copy, std::function<void(bool ok)> done) override;
  device_profile profile() const override;

  /// Sees every row of raw logits before it is answered: slice index, position, logits. For
  /// measurements of quality.
  using logit_observer = std::function<void(std::uint32_t, std::uint32_t, std::span<const float>)>;
  void observe_logits(logit_observer observer) { observer_ = std::move(observer); }

 private:
  cpu_backend(std::shared_ptr<const loaded_model> model, const backend_options& options,
              const cpu_options& own);
  void copy_blocks(const laid_out_step& step);
  void answer(const laid_out_step& step, const step_segment& segment, step_result& result);

  std::shared_ptr<const loaded_model> model_;
  const kernel_table& kernels_;
  worker_pool workers_;
  model_weights weights_;
  kv_pool kv_;
  forward_pass forward_;
  std::vector<sampler> samplers_;        // one per row of a tile of logits
  std::optional<step_profile> profile_;  // when it was asked for
  device_info info_;
  logit_observer observer_;
  block_copier copier_;  // last: its thread stops first
};

}  // namespace troupe::gpu
