// How much memory a model, its KV pool and the host tier take, and how many blocks the pool gets
// beside them. Pure arithmetic: the memory this process may use is a parameter (see
// gpu/host_limits).
#pragma once
#include <cstdint>
#include <string>

#include "config/runtime_config.hpp"
#include "gpu/kv_format.hpp"

namespace troupe {

/// What activations, actors and connections take beside weights and blocks; measured 25 MiB,
/// rounded up.
constexpr std::uint64_t working_memory = 64ull << 20;

struct pool_plan {
  std::uint32_t blocks = 0;
  std::string shrunk;  ///< why the default pool became smaller; empty: it did not
};

/// The pool that the configuration asks for, in blocks of each layer group of the format. Without
/// --num-kv-blocks and --kv-cache-memory it shrinks to what `available` bytes leave; a pool that
/// was asked for, or weights that do not fit, throw std::runtime_error with the sum and the limit.
pool_plan plan_pool(const runtime_config&, const gpu::kv_format&, std::uint64_t weight_bytes,
                    std::uint64_t available);

}  // namespace troupe
