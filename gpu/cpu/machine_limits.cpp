#include "gpu/cpu/machine_limits.hpp"

#include <algorithm>
#include <chrono>

#include "gpu/cpu/kernels/kernel_costs.hpp"

namespace troupe::gpu {

namespace {

// Many short tries: on a busy machine some of them run undisturbed.
constexpr int tries = 24;
constexpr std::size_t piece_bytes = 1 << 17;  // of one thread
constexpr std::size_t group_bytes = 4 << 20;  // of one measured time

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Operations a second of all threads, each with the same share.
double best_rate(std::uint64_t (*loop)(std::uint64_t), worker_pool& workers) {
  const auto first = std::chrono::steady_clock::now();
  constexpr std::uint64_t warm_rounds = 20000;
  loop(warm_rounds);
  constexpr double goal_s = 0.001;
  const auto rounds =
      static_cast<std::uint64_t>(std::max(1.0, warm_rounds * goal_s / seconds_since(first)));
  double best = 0;
  for (int i = 0; i < tries || seconds_since(first) < 0.15; ++i) {
    std::vector<std::uint64_t> done(workers.threads());
    const auto begin = std::chrono::steady_clock::now();
    workers.run(workers.threads(), [&](std::uint32_t thread) { done[thread] = loop(rounds); });
    const double seconds = seconds_since(begin);
    std::uint64_t all = 0;
    for (const std::uint64_t n : done) all += n;
    best = std::max(best, static_cast<double>(all) / seconds);
  }
  return best;
}

}  // namespace

double measure_dots_per_s(const kernel_table& kernels, worker_pool& workers) {
  return best_rate(kernels.dot_loop, workers);
}

double measure_floats_per_s(const kernel_table& kernels, worker_pool& workers) {
  return best_rate(kernels.float_loop, workers);
}

double measure_bytes_per_s(const kernel_table& kernels, worker_pool& workers,
                           const byte_spans& memory) {
  byte_spans groups;
  double total = 0;
  for (const auto& span : memory) {
    total += static_cast<double>(span.size());
    for (std::size_t at = 0; at < span.size(); at += group_bytes) {
      groups.push_back(span.subspan(at, std::min(group_bytes, span.size() - at)));
    }
  }
  std::vector<double> least(groups.size(), 1e9);
  const auto first = std::chrono::steady_clock::now();
  for (int i = 0; i < 3 || (i < tries && seconds_since(first) < 0.25); ++i) {
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const auto begin = std::chrono::steady_clock::now();
      const std::size_t size = groups[g].size();
      workers.run(static_cast<std::uint32_t>((size + piece_bytes - 1) / piece_bytes),
                  [&](std::uint32_t piece) {
                    const std::size_t at = piece * piece_bytes;
                    kernels.read_loop(groups[g].data() + at, std::min(piece_bytes, size - at));
                  });
      least[g] = std::min(least[g], seconds_since(begin));
    }
  }
  double seconds = 0;
  for (const double group : least) seconds += group;
  return total / seconds;
}

byte_spans packed_bytes_of(const model_weights& weights) {
  byte_spans out;
  const auto add = [&](const packed_matrix& m) { out.emplace_back(m.data, panel_bytes_of(m)); };
  for (const layer_weights& layer : weights.layers()) {
    for (const packed_matrix* m :
         {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down}) {
      add(*m);
    }
  }
  add(weights.head());
  return out;
}

machine_limits measure_limits(const kernel_table& kernels, worker_pool& workers,
                              const model_weights& weights) {
  return {measure_dots_per_s(kernels, workers), measure_floats_per_s(kernels, workers),
          measure_bytes_per_s(kernels, workers, packed_bytes_of(weights))};
}

}  // namespace troupe::gpu
