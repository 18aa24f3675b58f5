#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "gpu/cpu/host_limits.hpp"
#include "tools/bench/bench.hpp"

namespace troupe {
namespace {

using namespace troupe::gpu;
using steady = std::chrono::steady_clock;

constexpr std::uint32_t prefill_tokens = 512;
constexpr std::uint32_t decode_prompt = 64;
constexpr std::uint32_t decode_steps = 48;
constexpr std::uint32_t stream_counts[] = {1, 8, 16, 32};

struct decode_rate {
  std::uint32_t streams;
  double tokens_per_s;
};

double seconds_since(steady::time_point begin) {
  return std::chrono::duration<double>(steady::now() - begin).count();
}

double median_of_three(double a, double b, double c) {
  return std::max(std::min(a, b), std::min(std::max(a, b), c));
}

class engine_bench {
 public:
  engine_bench(backend& device, std::uint32_t vocab) : device_(device), vocab_(vocab) {}

  double prefill() {
    step_batch batch;
    batch.slices.push_back(slice(0, 0, prefill_tokens));
    const auto begin = steady::now();
    run(batch);
    return prefill_tokens / seconds_since(begin);
  }

  double decode(std::uint32_t streams) {
    for (std::uint32_t s = 0; s < streams; ++s) {
      step_batch prompt;
      prompt.slices.push_back(slice(s, 0, decode_prompt));
      run(prompt);
    }
    const auto begin = steady::now();
    for (std::uint32_t i = 0; i < decode_steps; ++i) {
      step_batch batch;
      for (std::uint32_t s = 0; s < streams; ++s)
        batch.slices.push_back(slice(s, decode_prompt + i, 1));
      run(batch);
    }
    return streams * decode_steps / seconds_since(begin);
  }

  static std::uint32_t blocks_needed(std::uint32_t block_size) {
    return std::max(prefill_tokens / block_size, 32 * blocks_per_stream(block_size));
  }

 private:
  static std::uint32_t blocks_per_stream(std::uint32_t block_size) {
    return (decode_prompt + decode_steps + block_size - 1) / block_size;
  }

  sequence_slice slice(std::uint32_t stream, std::uint32_t start, std::uint32_t count) const {
    const std::uint32_t size = device_.info().block_size;
    sequence_slice s;
    s.key = stream;
    s.start = start;
    for (std::uint32_t i = 0; i < count; ++i) {
      s.tokens.push_back(
          static_cast<token_id>((stream * 7919 + (start + i) * 104729 + 1000) % vocab_));
    }
    const std::uint32_t first = stream * blocks_per_stream(size);
    for (std::uint32_t b = 0; b * size < start + count; ++b) s.blocks.push_back(first + b);
    s.sample = true;
    s.sampling.temperature = 0.0f;
    return s;
  }

  void run(step_batch batch) {
    const auto step = device_.plan(std::move(batch));
    device_.run(*step);
  }

  backend& device_;
  std::uint32_t vocab_;
};

void report(const device_info& info, double load_s, double prefill,
            const std::vector<decode_rate>& rates, bool json) {
  if (json) {
    fmt::print(
        "{{\"machine\":\"{}\",\"isa\":\"{}\",\"threads\":{},\"load_s\":{:.3f},"
        "\"weight_bytes\":{},\"prefill_512_tokens_per_s\":{:.1f},\"decode_tokens_per_s\":{{",
        machine_name(), info.isa, info.threads, load_s, info.weight_bytes, prefill);
    for (const decode_rate& r : rates) {
      fmt::print("{}\"{}\":{:.1f}", &r == rates.data() ? "" : ",", r.streams, r.tokens_per_s);
    }
    fmt::print("}}}}\n");
    return;
  }
  fmt::print("machine  {}\nisa      {}, {} threads\nload     {:.2f} s, weights {:.1f} MB\n",
             machine_name(), info.isa, info.threads, load_s,
             static_cast<double>(info.weight_bytes) / 1e6);
  fmt::print("prefill  {:8.1f} tokens/s ({} tokens)\n", prefill, prefill_tokens);
  for (const decode_rate& r : rates) {
    fmt::print("decode   {:8.1f} tokens/s at {} sequences\n", r.tokens_per_s, r.streams);
  }
}

}  // namespace

void bench_engine(const std::string& path, backend_options options, bool json) {
  const auto begin = steady::now();
  const auto model = load_model(path);
  options.num_blocks = engine_bench::blocks_needed(options.block_size);
  const auto device = make_backend(model, options);
  const double load_s = seconds_since(begin);
  engine_bench bench(*device, model->config.vocab);
  bench.prefill();  // warm up
  const double prefill = median_of_three(bench.prefill(), bench.prefill(), bench.prefill());
  std::vector<decode_rate> rates;
  for (const std::uint32_t n : stream_counts) {
    rates.push_back({n, median_of_three(bench.decode(n), bench.decode(n), bench.decode(n))});
  }
  report(device->info(), load_s, prefill, rates, json);
}

}  // namespace troupe
