// The device alone: batches made by hand, each sequence in blocks of its own.
#include <chrono>

#include "tools/bench/engine_rates.hpp"

namespace troupe {
namespace {

using namespace troupe::gpu;
using steady = std::chrono::steady_clock;

constexpr std::uint32_t longest_computed_prompt = 512;

double seconds_since(steady::time_point begin) {
  return std::chrono::duration<double>(steady::now() - begin).count();
}

class device_rates final : public engine_rates {
 public:
  device_rates(std::shared_ptr<const loaded_model> model, std::shared_ptr<backend> device)
      : model_(std::move(model)), device_(std::move(device)) {}

  double prefill(std::uint32_t tokens) override {
    const auto begin = steady::now();
    run_prompt(0, tokens, tokens);
    return tokens / seconds_since(begin);
  }

  std::vector<decode_rate> decode(const decode_plan& plan) override {
    if (plan.prompt <= longest_computed_prompt)
      for (std::uint32_t s = 0; s < plan.streams; ++s) run_prompt(s, plan.prompt, plan.longest());
    const auto& info = device_->info();
    const double token_bytes = static_cast<double>(info.kv.token_bytes());
    std::vector<decode_rate> out;
    auto context = plan.prompt;
    for (std::uint32_t w = 0; w < plan.windows; ++w) {
      double read = 0;
      const auto begin = steady::now();
      for (std::uint32_t i = 0; i < plan.steps; ++i, ++context) {
        step_batch batch;
        for (std::uint32_t s = 0; s < plan.streams; ++s)
          batch.slices.push_back(slice(s, context, 1, plan.longest()));
        run(std::move(batch));
        read += token_bytes * plan.streams * (context + 1);
      }
      const double s = seconds_since(begin);
      out.push_back({plan.streams * plan.steps / s, read / s});
    }
    return out;
  }

 private:
  /// A sequence's blocks lie behind those of the ones before it, `longest` tokens each.
  sequence_slice slice(std::uint32_t stream, std::uint32_t start, std::uint32_t count,
                       std::uint32_t longest) const {
    const auto size = device_->info().kv.block_size;
    const auto vocab = model_->config.vocab;
    sequence_slice out;
    out.key = stream;
    out.start = start;
    for (std::uint32_t i = 0; i < count; ++i)
      out.tokens.push_back(
          static_cast<token_id>((stream * 7919 + (start + i) * 104729 + 1000) % vocab));
    const auto first = stream * ((longest + size - 1) / size);
    for (std::uint32_t b = 0; b * size < start + count; ++b) out.blocks.push_back(first + b);
    out.sample = true;
    out.decode.edit().sampling.temperature = 0.0f;
    return out;
  }

  void run_prompt(std::uint32_t stream, std::uint32_t tokens, std::uint32_t longest) {
    step_batch batch;
    batch.slices.push_back(slice(stream, 0, tokens, longest));
    run(std::move(batch));
  }

  void run(step_batch batch) {
    const auto step = device_->plan(std::move(batch));
    device_->run(*step);
  }

  std::shared_ptr<const loaded_model> model_;
  std::shared_ptr<backend> device_;
};

}  // namespace

std::unique_ptr<engine_rates> rates_of_device(std::shared_ptr<const loaded_model> model,
                                              std::shared_ptr<backend> device) {
  return std::make_unique<device_rates>(std::move(model), std::move(device));
}

}  // namespace troupe
