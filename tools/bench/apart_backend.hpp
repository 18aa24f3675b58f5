// A device that never computes prompt chunks and decode rows in one step: what the scheduler has
// planned together runs as two steps, one after the other. For the comparison with mixed steps; the
// answers are the same. Owns nothing of a step but its two halves.
#pragma once
#include <memory>

#include "gpu/backend.hpp"

namespace troupe {

class apart_backend final : public gpu::backend {
 public:
  explicit apart_backend(std::shared_ptr<gpu::backend> device) : device_(std::move(device)) {}

  const gpu::device_info& info() const override { return device_->info(); }
  std::unique_ptr<gpu::planned_step> plan(gpu::step_batch) override;
  gpu::step_result run(gpu::planned_step&) override;
  void copy(gpu::block_copy copy, std::function<void(bool ok)> done) override {
    device_->copy(std::move(copy), std::move(done));
  }

 private:
  std::shared_ptr<gpu::backend> device_;
};

}  // namespace troupe
