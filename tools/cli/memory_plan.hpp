// How much memory a model, its KV pool and the host tier take, and how many blocks the pool gets
// beside them. Pure arithmetic: the memory this process may use is handed in (gpu/host_limits tells
// it).
#pragma once
#include <cstdint>
#include <string>

#include "config/runtime_config.hpp"
#include "gpu/model/gguf/gguf.hpp"
#include "gpu/model/model_config.hpp"

namespace troupe {

/// What activations, actors and connections take beside weights and blocks; measured 25 MiB,
/// rounded up.
constexpr std::uint64_t working_memory = 64ull << 20;

/// Bytes of the weights as the CPU device repacks them; the mapped file, which the kernel can drop,
/// counts for nothing.
std::uint64_t packed_weight_bytes(const gpu::gguf_file&);

struct pool_plan {
  std::uint32_t blocks = 0;
  std::string shrunk;  ///< why the default pool became smaller; empty: it did not
};

/// The pool that the configuration asks for. Without --num-kv-blocks and --kv-cache-memory it
/// shrinks to what `available` bytes leave; a pool that was asked for, or weights that do not fit,
/// throw std::runtime_error with the sum and the limit.
pool_plan plan_pool(const runtime_config&, const gpu::model_config&, std::uint64_t weight_bytes,
                    std::uint64_t available);

}  // namespace troupe
