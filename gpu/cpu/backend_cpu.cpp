#include "gpu/cpu/backend_cpu.hpp"

#include <chrono>
#include <cstring>
#include <string>

#include "gpu/cpu/kernels/kernel_costs.hpp"
#include "gpu/cpu/machine_limits.hpp"
#include "gpu/host_limits.hpp"

namespace troupe::gpu {

namespace {

void check(const backend_options& options, const loaded_model& model) {
  if (options.block_size != 16 && options.block_size != 32) {
    throw std::invalid_argument("block_size: " + std::to_string(options.block_size) +
                                " is not 16 or 32");
  }
  if (options.num_blocks == 0) throw std::invalid_argument("num_blocks: 0, at least 1 is needed");
  const std::uint32_t dim = model.config.head_dim;
  if (dim % 16 != 0 || dim > head_dim_max) {
    model.file.fail("head_dim: " + std::to_string(dim) +
                    "; the cpu device needs a multiple of 16 up to " +
                    std::to_string(head_dim_max));
  }
}

}  // namespace

cpu_backend::cpu_backend(std::shared_ptr<const loaded_model> model, const backend_options& options)
    : cpu_backend(std::move(model), options, read_cpu_options(options)) {}

cpu_backend::cpu_backend(std::shared_ptr<const loaded_model> model, const backend_options& options,
                         const cpu_options& own)
    : model_(std::move(model)),
      kernels_((check(options, *model_), select_kernels(own.isa))),
      workers_(own.threads ? own.threads : usable_cores()),
      weights_(model_->file, model_->config, workers_, own.panel_cache),
      kv_(kv_format_of(cpu_device_kind(), model_->config, options), workers_),
      forward_(model_->config, weights_, kv_, kernels_, workers_),
      samplers_(forward_pass::logit_rows, sampler(kernels_, model_->config.vocab)),
      copier_(kv_) {
  info_ = {"cpu",        kernels_.isa,     workers_.threads(),
           kv_.format(), weights_.bytes(), weights_.report()};
  if (options.profile) {
    profile_.emplace(measure_limits(kernels_, workers_, weights_));
    forward_.profile_to(&*profile_);
  }
}

device_profile cpu_backend::profile() const {
  return profile_ ? profile_->read() : device_profile{};
}

std::unique_ptr<planned_step> cpu_backend::plan(step_batch batch) {
  auto step = lay_out(std::move(batch), {kv_.block_size(), kv_.num_blocks(), model_->config.vocab,
                                         model_->config.context, forward_pass::segment_rows});
  step->owner = this;
  return step;
}

step_result cpu_backend::run(planned_step& planned) {
  auto* step = dynamic_cast<laid_out_step*>(&planned);
  if (!step || step->owner != this) {
    throw batch_error("run: the step was not planned by this backend, or ran before");
  }
  step->owner = nullptr;
  const auto begin = std::chrono::steady_clock::now();
  if (profile_) profile_->begin_step();
  step_result result;
  result.step = step->batch.step;
  for (const sequence_slice& slice : step->batch.slices) {
    result.slices.emplace_back().key = slice.key;
  }
  copy_blocks(*step);
  std::uint64_t rows = 0;
  for (const step_segment& segment : step->segments) {
    forward_.run(step->batch, segment);
    answer(*step, segment, result);
    rows += segment.tokens.size();
  }
  if (profile_) profile_->end_step(rows);
  result.elapsed_us =
      static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(
                                     std::chrono::steady_clock::now() - begin)
                                     .count());
  return result;
}

/// No target is a source (lay_out refuses it), so the copies need no order among themselves.
void cpu_backend::copy_blocks(const laid_out_step& step) {
  if (step.copies.empty()) return;
  workers_.run(static_cast<std::uint32_t>(step.copies.size()), [&](std::uint32_t i) {
    std::memcpy(kv_.block(step.copies[i].to), kv_.block(step.copies[i].from), kv_.block_bytes());
  });
  if (!profile_) return;
  kernel_cost cost;
  cost.calls = 1;
  cost.bytes = step.copies.size() * kv_.block_bytes();
  profile_->lap(kernel_kind::other, cost);
}

void cpu_backend::answer(const laid_out_step& step, const step_segment& segment,
                         step_result& result) {
  const std::uint32_t vocab = model_->config.vocab;
  const std::uint32_t total = static_cast<std::uint32_t>(segment.wanted.size());
  for (std::uint32_t begin = 0; begin < total; begin += forward_pass::logit_rows) {
    const std::uint32_t count = std::min(forward_pass::logit_rows, total - begin);
    const std::span wanted(segment.wanted.data() + begin, count);
    std::vector<std::uint32_t> rows;
    for (const wanted_row& w : wanted) rows.push_back(w.row);
    float* logits = forward_.logits(rows);
    std::vector<row_answer> answers(count);
    if (observer_) {
      for (std::uint32_t i = 0; i < count; ++i) {
        observer_(wanted[i].slice, wanted[i].position,
                  {logits + i * forward_.logit_stride(), vocab});
      }
    }
    workers_.run(count, [&](std::uint32_t i) {
      const wanted_row& w = wanted[i];
      answers[i] =
          samplers_[i].answer({logits + i * forward_.logit_stride(), vocab,
                               &step.batch.slices[w.slice], w.target, w.sample, w.position + 1});
    });
    if (profile_) profile_->lap(kernel_kind::sampler, row_cost(count, vocab));
    for (std::uint32_t i = 0; i < count; ++i) {
      slice_result& out = result.slices[wanted[i].slice];
      out.bad_logits = out.bad_logits || answers[i].bad_logits;
      out.nothing_allowed = out.nothing_allowed || answers[i].nothing_allowed;
      if (answers[i].score) out.scores.push_back(std::move(*answers[i].score));
      out.sampled = std::move(answers[i].sampled);
      const auto& tails = step.batch.slices[wanted[i].slice].tails;
      for (std::size_t k = 0; k < answers[i].tails.size(); ++k) {
        out.tails.push_back({tails[k].key, std::move(answers[i].tails[k])});
      }
      if (out.bad_logits) {
        out.sampled.reset();
        out.tails.clear();
      }
    }
  }
}

void cpu_backend::copy(block_copy copy, std::function<void(bool ok)> done) {
  copier_.start(std::move(copy), std::move(done));
}

}  // namespace troupe::gpu
