// What `troupe-bench kernels` measured, as a table for people, as JSON, and as floors. Values and
// words alone; measures nothing.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "gpu/device_profile.hpp"

namespace troupe {

/// The machine with a number of threads.
struct thread_peaks {
  std::uint32_t threads = 1;
  gpu::machine_limits limits;    ///< reading: of the weights
  double large_bytes_per_s = 0;  ///< reading of a buffer of large_bytes
  double decode_step_s = 0;      ///< one sequence, the whole step; the fastest
  double decode_step_median_s = 0;
};

/// One kind of kernel, all layers in turn, each call at its fastest.
struct kernel_figure {
  gpu::kernel_kind kind = gpu::kernel_kind::other;
  std::string name;     ///< "qkv 960x576", "sampler greedy"
  std::string setting;  ///< what was asked: "64 rows", "context 4096, 8 sequences"
  std::uint32_t rows = 0;
  std::uint32_t threads = 1;
  gpu::kernel_cost cost;
};

struct floor_check {
  std::string what, unit;
  double value = 0, least = 0;
  bool holds() const { return value >= least; }
};

struct kernels_report {
  std::string machine, isa;
  std::uint64_t weight_bytes = 0, large_bytes = 0;
  std::vector<thread_peaks> peaks;     ///< one thread, then all where they are more
  std::vector<kernel_figure> matmuls;  ///< by kind, rows, threads
  std::vector<kernel_figure> others;

  const gpu::machine_limits& limits_of(std::uint32_t threads) const;
};

/// The layers' matrices and the head together, at `rows` rows; zero calls where they were not
/// measured.
gpu::kernel_cost all_matmuls(const kernels_report&, std::uint32_t rows, std::uint32_t threads);
std::vector<floor_check> floors_of(const kernels_report&);
std::string to_words(const kernels_report&);
nlohmann::ordered_json to_json(const kernels_report&);

}  // namespace troupe
