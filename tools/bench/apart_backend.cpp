#include "tools/bench/apart_backend.hpp"

namespace troupe {
namespace {

struct part {
  std::unique_ptr<gpu::planned_step> step;
  std::vector<std::size_t> places;  // in the whole batch
};

struct step_apart final : gpu::planned_step {
  std::uint64_t step = 0;
  std::size_t slices = 0;
  std::vector<part> parts;
};

/// One token behind others is a decode row; a prompt's last chunk of one token counts as one.
bool is_decode(const gpu::sequence_slice& slice) {
  return slice.tokens.size() == 1 && slice.start > 0;
}

}  // namespace

std::unique_ptr<gpu::planned_step> apart_backend::plan(gpu::step_batch batch) {
  auto out = std::make_unique<step_apart>();
  out->step = batch.step;
  out->slices = batch.slices.size();
  gpu::step_batch halves[2];
  part parts[2];  // prompt chunks, decode rows
  for (std::size_t i = 0; i < batch.slices.size(); ++i) {
    const bool decode = is_decode(batch.slices[i]);
    halves[decode].slices.push_back(std::move(batch.slices[i]));
    parts[decode].places.push_back(i);
  }
  for (const bool decode : {false, true}) {
    if (halves[decode].slices.empty()) continue;
    halves[decode].step = batch.step;
    parts[decode].step = device_->plan(std::move(halves[decode]));
    out->parts.push_back(std::move(parts[decode]));
  }
  return out;
}

gpu::step_result apart_backend::run(gpu::planned_step& planned) {
  auto& step = static_cast<step_apart&>(planned);
  gpu::step_result out;
  out.step = step.step;
  out.slices.resize(step.slices);
  for (auto& one : step.parts) {
    auto result = device_->run(*one.step);
    out.elapsed_us += result.elapsed_us;
    for (std::size_t i = 0; i < one.places.size(); ++i)
      out.slices[one.places[i]] = std::move(result.slices[i]);
  }
  return out;
}

}  // namespace troupe
