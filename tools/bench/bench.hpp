// What `troupe-bench` measures, one function per subcommand, each in its own file. They print their
// figures and nothing else; none knows the command line.
#pragma once
#include <string>
#include <vector>

#include "gpu/make_backend.hpp"
#include "tools/bench/load/load_plan.hpp"

namespace troupe {

struct engine_options {
  std::vector<std::uint32_t> streams = {1, 4, 8, 16, 32};  ///< sequences that decode together
  std::uint32_t context = 0;   ///< > 0: also decode at 8 sequences behind prompts of so many tokens
  std::uint32_t runs = 3;      ///< of each figure; the median is told
  bool device_only = false;    ///< no scheduler, no executor, no sessions
  bool beside_device = false;  ///< both, in turns
};

/// Prefill of 512 tokens and steady decode rates through scheduler, executor and sessions.
void bench_engine(const std::string& model, gpu::backend_options options, const engine_options&,
                  const std::string& command, bool json);

/// Every kernel of the CPU device beside the machine's own peaks, on one thread and on all. `json`:
/// one line of it.
void bench_kernels(const std::string& model, const gpu::backend_options& options, bool json);

struct kv_options {
  std::vector<std::string> types = {"f16", "int8", "int8/int4", "int4"};  ///< of K/V, or of both
  std::string text;              ///< file whose loss and distribution are told; empty: neither
  std::size_t tokens = 512;      ///< of it, at most
  std::uint32_t context = 4096;  ///< of each of 8 sequences
  std::uint32_t runs = 5;        ///< windows of each rate; 0: no rates
};

/// Quality, memory and decode rates of KV cache types, each beside the first of the list.
void bench_kv(const std::string& model, const gpu::backend_options&, const kv_options&,
              const std::string& command, bool json);

/// What the block ledger and its prefix index cost a step of 32 sequences, beside the time such a
/// step takes (`step_ms`).
void bench_bookkeeping(double step_ms, bool json);
/// Median of the scheduler's own time for one step of 32 decoding sequences with long histories.
double bench_scheduler_step_us();

/// What a prefix found in the cache and a request brought back from the host tier cost, beside
/// computing the same again.
void bench_cache(const std::string& model, gpu::backend_options options, bool json);

/// A load on a server by its URL, and what the clients saw. False: some request failed, and not
/// because it was cancelled.
bool bench_serve(const load_options&, const std::string& command);

struct policy_options {
  std::vector<std::string> tables;  ///< empty: all
  bool quick = false;               ///< a few short requests: does it work, not how fast is it
  double rate = 0;                  ///< arrivals a second; 0: 80 % of what was measured
  std::uint64_t seed = 1;
};
/// What `tables` may name.
extern const std::vector<std::string> policy_tables;

/// The same requests under one policy after another: serial, fixed batches and continuous batching;
/// recompute and KV cache; prefill and decode mixed and apart; batching windows; length buckets.
void bench_policies(const std::string& model, gpu::backend_options options, const policy_options&,
                    const std::string& command, bool json);

}  // namespace troupe
