// What `troupe-bench` measures, one function per subcommand, each in its own file. They print their figures and nothing
// else; none knows the command line.
#pragma once
#include <string>

#include "gpu/make_backend.hpp"

namespace troupe {

/// The device alone: prefill tokens/s for 512 tokens and decode tokens/s at 1, 8, 16 and 32 sequences, each the median
/// of three runs.
void bench_engine(const std::string& model, gpu::backend_options options, bool json);

/// What the block ledger and its prefix index cost a step of 32 sequences, beside the time such a step takes
/// (`step_ms`).
void bench_bookkeeping(double step_ms, bool json);

/// What a prefix found in the cache and a request brought back from the host tier cost, beside computing the same again.
void bench_cache(const std::string& model, gpu::backend_options options, bool json);

}  // namespace troupe
