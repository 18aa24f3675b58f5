// `troupe estimate`: what a model would take, from its file or from its dimensions alone. Loads no
// weights, allocates no pool.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "gpu/kv_format.hpp"
#include "tools/cli/options.hpp"

namespace CLI {
class App;
}

namespace troupe {

struct memory_estimate {
  std::string name;  ///< empty: from dimensions
  std::uint64_t layers = 0, width = 0, heads = 0, kv_heads = 0, head_dim = 0, vocab = 0, ffn = 0,
                context = 0;
  std::uint64_t sequences = 0, block_size = 0;
  gpu::kv_types kv_types = gpu::kv_f16;
  std::uint64_t precise_layers = 0;                       ///< of all; they are stored as f16
  std::optional<std::uint64_t> file_bytes, weight_bytes;  ///< as stored; resident
  std::string weight_source;                              ///< how weight_bytes was found
  // derived by complete()
  std::uint64_t token_bytes = 0, blocks_per_sequence = 0, sequence_bytes = 0, pool_blocks = 0,
                pool_bytes = 0, table_bytes = 0, total_bytes = 0;

  /// token_bytes (gpu/kv_format.hpp) and what follows from it. False: past 64 bits.
  bool complete();
};

std::string estimate_words(const memory_estimate&, std::uint64_t available);
std::string estimate_json(const memory_estimate&, std::uint64_t available);

class estimate_command {
 public:
  explicit estimate_command(CLI::App&);
  bool given() const;
  early_exit run(bool on_terminal) const;

 private:
  CLI::App* app_ = nullptr;
};

}  // namespace troupe
