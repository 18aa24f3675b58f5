// What the server prints when it starts: model, cache arithmetic, limits, stop configuration. Words
// or one JSON line.
#pragma once
#include <string>

#include "actors/core/scheduler_machine.hpp"
#include "config/runtime_config.hpp"
#include "gpu/backend.hpp"
#include "gpu/model/loaded_model.hpp"

namespace troupe {

struct startup_facts {
  const runtime_config& config;
  const gpu::loaded_model& model;
  const gpu::device_info& device;
  const core::scheduler_limits& limits;
  double load_seconds = 0;
  double model_seconds =
      0;  ///< of these: file, tokenizer and template; the weights' are in `device`
};

std::string startup_words(const startup_facts&);
std::string startup_json(const startup_facts&);

/// --max-model-len beyond the model's trained context, and what is in force instead; empty: it is
/// not.
std::string context_warning(const startup_facts&);

/// Bytes of the block tables of max_num_seqs sequences of full length, as a share of the pool.
double block_table_share(const startup_facts&);

}  // namespace troupe
