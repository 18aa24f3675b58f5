// The kernels of the CPU device one by one, beside what the machine can do at most. They run inside
// real forward passes over all layers, timed by the device's own stopwatch, so weights and KV come
// from where they come from in a step.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <numeric>

#include "gpu/cpu/backend_cpu.hpp"
#include "gpu/cpu/cpu_device.hpp"
#include "gpu/cpu/kernels/kernel_costs.hpp"
#include "gpu/cpu/machine_limits.hpp"
#include "gpu/host_limits.hpp"
#include "tools/bench/bench.hpp"
#include "tools/bench/kernels_report.hpp"

namespace troupe {
namespace {

using namespace troupe::gpu;
using steady = std::chrono::steady_clock;
using kernel_costs = std::array<kernel_cost, kernel_kinds>;

constexpr std::uint32_t row_counts[] = {1, 2, 4, 8, 16, 32, 64, 256};
constexpr std::uint32_t block_size = 16;
constexpr std::uint32_t long_context = 4096;
constexpr std::uint32_t many_sequences = 8;
constexpr std::size_t large_bytes = std::size_t{1} << 30;

double seconds_since(steady::time_point begin) {
  return std::chrono::duration<double>(steady::now() - begin).count();
}

const kernel_cost& of(const kernel_costs& costs, kernel_kind kind) {
  return costs[static_cast<std::size_t>(kind)];
}

/// `sequences` of them, each with `count` tokens from `start` on, in blocks of their own.
step_batch batch_of(const model_config& config, std::uint32_t sequences, std::uint32_t start,
                    std::uint32_t count) {
  step_batch batch;
  const std::uint32_t blocks = (start + count + block_size - 1) / block_size;
  for (std::uint32_t s = 0; s < sequences; ++s) {
    sequence_slice& slice = batch.slices.emplace_back();
    slice.key = s;
    slice.start = start;
    slice.decode.edit().sampling.temperature = 0.0f;
    slice.sample = true;
    for (std::uint32_t i = 0; i < count; ++i) {
      slice.tokens.push_back(
          static_cast<token_id>((s * 7919 + (start + i) * 104729 + 1000) % config.vocab));
    }
    for (std::uint32_t b = 0; b < blocks; ++b) slice.blocks.push_back(s * blocks + b);
  }
  return batch;
}

/// One forward pass with its own threads, over weights and KV that others share.
class pass_meter {
 public:
  pass_meter(const model_config& config, const model_weights& weights, const kv_pool& kv,
             const kernel_table& kernels, worker_pool& workers)
      : config_(config),
        kv_(kv),
        kernels_(kernels),
        workers_(workers),
        forward_(config, weights, kv, kernels, workers) {}

  /// What each kind of kernel takes in a pass; `head_rows` rows of logits in each.
  kernel_costs measure(const step_batch& batch, std::uint32_t head_rows) {
    const auto step = lay_out(batch, {block_size, kv_.num_blocks(), config_.vocab, config_.context,
                                      forward_pass::segment_rows});
    return best_of([&] {
      forward_.run(step->batch, step->segments.front());
      for (std::uint32_t done = 0; done < head_rows; done += forward_pass::logit_rows) {
        const std::uint32_t rows[forward_pass::logit_rows] = {};
        forward_.logits({rows, std::min(head_rows - done, forward_pass::logit_rows)});
      }
    });
  }

  /// `rows` rows of logits, each answered by a sampler of its own.
  kernel_costs sample(const sampling_params& sampling, std::int32_t top_logprobs,
                      std::uint32_t rows) {
    sequence_slice slice;
    slice.decode.edit().sampling = sampling;
    slice.decode.edit().top_logprobs = top_logprobs;
    std::vector<sampler> samplers(rows, sampler(kernels_, config_.vocab));
    const std::vector<std::uint32_t> source(rows);
    return best_of([&] {
      float* logits = forward_.logits(source);
      workers_.run(rows, [&](std::uint32_t i) {
        samplers[i].answer(
            {logits + i * forward_.logit_stride(), config_.vocab, &slice, -1, true, i + 1});
      });
      profile_->lap(kernel_kind::sampler, row_cost(rows, config_.vocab));
    });
  }

 private:
  /// Every pass makes the same calls in the same order; each counts with its fastest time.
  template <class Pass>
  kernel_costs best_of(Pass pass) {
    std::vector<kernel_lap> best, laps;
    const auto begin = steady::now();
    for (int tries = 0; tries == 0 || seconds_since(begin) < (tries < 4 ? 1.0 : 0.2); ++tries) {
      laps.clear();
      step_profile profile({});
      profile.keep_laps(laps);
      profile_ = &profile;
      forward_.profile_to(profile_);
      profile.begin_step();
      pass();
      profile.end_step(0);
      if (tries == 0) best = laps;
      for (std::size_t i = 0; i < laps.size(); ++i) {
        if (laps[i].cost.nanoseconds < best[i].cost.nanoseconds) best[i] = laps[i];
      }
    }
    forward_.profile_to(nullptr);
    kernel_costs sums{};
    for (const kernel_lap& lap : best) sums[static_cast<std::size_t>(lap.kind)] += lap.cost;
    return sums;
  }

  const model_config& config_;
  const kv_pool& kv_;
  const kernel_table& kernels_;
  worker_pool& workers_;
  forward_pass forward_;
  step_profile* profile_ = nullptr;
};

class kernels_bench {
 public:
  kernels_bench(std::shared_ptr<loaded_model> model, const backend_options& options)
      : model_(std::move(model)),
        config_(model_->config),
        options_(options),
        own_(read_cpu_options(options)),
        kernels_(select_kernels(own_.isa)),
        all_threads_(own_.threads ? own_.threads : usable_cores()),
        loaders_(all_threads_),
        weights_(model_->file, config_, loaders_),
        kv_(kv_format_of(cpu_device_kind(), config_, with_threads(all_threads_, pool_blocks())),
            loaders_) {
    report_.machine = machine_name();
    report_.isa = kernels_.isa;
    report_.weight_bytes = weights_.bytes();
    thread_counts_ = {1};
    if (all_threads_ > 1) thread_counts_.push_back(all_threads_);
  }

  kernels_report run() {
    measure_peaks();
    model_->file.release_data();  // the last device of its own is made
    for (const std::uint32_t threads : thread_counts_) {
      worker_pool workers(threads);
      pass_meter meter(config_, weights_, kv_, kernels_, workers);
      measure_matmuls(meter, threads);
      measure_attention(meter, threads);
      measure_sampler(meter, threads);
    }
    const auto by_kind = [](const kernel_figure& a, const kernel_figure& b) {
      return a.kind < b.kind;
    };
    std::stable_sort(report_.matmuls.begin(), report_.matmuls.end(), by_kind);
    std::stable_sort(report_.others.begin(), report_.others.end(), by_kind);
    return std::move(report_);
  }

 private:
  std::uint32_t context() const {
    return std::min(long_context, config_.context / block_size * block_size);
  }

  std::uint32_t pool_blocks() const { return many_sequences * context() / block_size; }

  void measure_peaks() {
    memory_region large(std::min<std::size_t>(large_bytes, available_memory() / 4));
    std::fill(large.data(), large.data() + large.size(), std::byte{1});
    report_.large_bytes = large.size();
    for (const std::uint32_t threads : thread_counts_) {
      worker_pool workers(threads);
      thread_peaks& p = report_.peaks.emplace_back();
      p.threads = threads;
      p.limits = measure_limits(kernels_, workers, weights_);
      p.large_bytes_per_s = measure_bytes_per_s(kernels_, workers, {{large.data(), large.size()}});
    }
    for (thread_peaks& p : report_.peaks) measure_decode(p);
  }

  backend_options with_threads(std::uint32_t threads, std::uint32_t blocks) const {
    backend_options out = options_;
    out.own["threads"] = std::to_string(threads);
    out.block_size = block_size;
    out.num_blocks = blocks;
    return out;
  }

  /// Steps of one sequence through the device as the product drives it.
  void measure_decode(thread_peaks& p) {
    const std::uint32_t tokens = std::min(config_.context, 128u);
    cpu_backend device(model_, with_threads(p.threads, (tokens + block_size - 1) / block_size));
    std::vector<double> times;
    for (std::uint32_t at = 0; at < tokens; ++at) {
      const auto begin = steady::now();
      const auto step = device.plan(batch_of(config_, 1, at, 1));
      device.run(*step);
      times.push_back(seconds_since(begin));
    }
    std::sort(times.begin(), times.end());
    p.decode_step_s = times.front();
    p.decode_step_median_s = times[times.size() / 2];
  }

  void measure_matmuls(pass_meter& meter, std::uint32_t threads) {
    const layer_weights& layer = weights_.layers().front();
    const auto shape = [](const char* name, const packed_matrix& m, std::uint32_t rows) {
      return fmt::format("{} {}x{}", name, rows, m.cols);
    };
    const std::pair<kernel_kind, std::string> shapes[] = {
        {kernel_kind::qkv, shape("qkv", layer.q, layer.q.rows + layer.k.rows + layer.v.rows)},
        {kernel_kind::o, shape("o", layer.o, layer.o.rows)},
        {kernel_kind::gate_up, shape("gate_up", layer.gate, layer.gate.rows + layer.up.rows)},
        {kernel_kind::down, shape("down", layer.down, layer.down.rows)},
        {kernel_kind::head, shape("head", weights_.head(), weights_.head().rows)}};
    for (const std::uint32_t rows : row_counts) {
      if (rows > config_.context) break;
      const auto setting = fmt::format("{} row{}", rows, rows == 1 ? "" : "s");
      const kernel_costs costs = meter.measure(batch_of(config_, 1, 0, rows), rows);
      for (const auto& [kind, name] : shapes) {
        report_.matmuls.push_back({kind, name, setting, rows, threads, of(costs, kind)});
      }
      if (rows != 1 && rows != 8 && rows != 64) continue;
      for (const kernel_kind kind : {kernel_kind::embedding, kernel_kind::norm,
                                     kernel_kind::rope_store, kernel_kind::quantize}) {
        if (of(costs, kind).calls == 0) continue;
        report_.others.push_back({kind, name_of(kind), setting, rows, threads, of(costs, kind)});
      }
    }
  }

  void measure_attention(pass_meter& meter, std::uint32_t threads) {
    const auto add = [&](const std::string& setting, const step_batch& batch, std::uint32_t rows) {
      const kernel_costs costs = meter.measure(batch, 0);
      report_.others.push_back({kernel_kind::attention, "attention", setting, rows, threads,
                                of(costs, kernel_kind::attention)});
    };
    for (const std::uint32_t tokens : {std::min(512u, context()), context()}) {
      for (const std::uint32_t sequences : {1u, many_sequences}) {
        add(fmt::format("context {}, {} sequence{}", tokens, sequences, sequences == 1 ? "" : "s"),
            batch_of(config_, sequences, tokens - 1, 1), sequences);
      }
    }
    const std::uint32_t prompt = std::min(forward_pass::segment_rows, context());
    add(fmt::format("prefill {}", prompt), batch_of(config_, 1, 0, prompt), prompt);
  }

  void measure_sampler(pass_meter& meter, std::uint32_t threads) {
    meter.measure(batch_of(config_, 1, 0, 1), 0);  // a row to make logits of
    sampling_params greedy, random;
    greedy.temperature = 0.0f;
    random.temperature = 1.0f;
    random.top_p = 0.95f;
    for (const std::uint32_t rows : {1u, forward_pass::logit_rows}) {
      const auto setting = fmt::format("{} row{}", rows, rows == 1 ? "" : "s");
      report_.others.push_back({kernel_kind::sampler, "sampler greedy", setting, rows, threads,
                                of(meter.sample(greedy, -1, rows), kernel_kind::sampler)});
      report_.others.push_back({kernel_kind::sampler, "sampler top-p", setting, rows, threads,
                                of(meter.sample(random, 5, rows), kernel_kind::sampler)});
    }
  }

  std::shared_ptr<loaded_model> model_;
  const model_config& config_;
  backend_options options_;
  cpu_options own_;
  const kernel_table& kernels_;
  std::uint32_t all_threads_;
  worker_pool loaders_;
  model_weights weights_;
  kv_pool kv_;
  std::vector<std::uint32_t> thread_counts_;
  kernels_report report_;
};

}  // namespace

void bench_kernels(const std::string& path, const backend_options& options, bool json) {
  const kernels_report report = kernels_bench(load_model(path), options).run();
  fmt::print("{}", json ? to_json(report).dump() + "\n" : to_words(report));
}

}  // namespace troupe
