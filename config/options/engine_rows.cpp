// Options of the model, the device, memory and scheduling.
#include <tuple>

#include "config/options/option_rows.hpp"

namespace troupe {

using c = runtime_config;

void add_model(std::vector<option_spec>& t) {
  const std::string g = "model and device";
  t.push_back({.name = "model",
               .aliases = {"m"},
               .group = g,
               .field = &c::model,
               .meaning = "GGUF file to serve; also the first argument",
               .unset = "must be given"});
  t.push_back({.name = "served-model-name",
               .aliases = {"a", "alias"},
               .group = g,
               .field = &c::served_model_names,
               .meaning = "name(s) of the model that clients may use",
               .unset = "the file's stem"});
  t.push_back({.name = "device",
               .group = g,
               .field = &c::device,
               .meaning = "the device that computes: auto or cpu",
               .unset = "the first the machine has"});
  t.push_back({.name = "threads",
               .group = g,
               .field = &c::threads,
               .high = 1024,
               .meaning = "threads that compute",
               .unset = "the cores this process may use"});
  t.push_back({.name = "isa",
               .group = g,
               .field = &c::isa,
               .choices = {"auto", "avx512-vnni", "avx2", "portable"},
               .meaning = "instruction set of the kernels",
               .unset = "the fastest the machine has"});
  t.push_back({.name = "panel-cache",
               .group = g,
               .field = &c::panel_cache,
               .meaning = "save the repacked weights in MODEL.panels and start from them"});
}

void add_memory(std::vector<option_spec>& t) {
  const std::string g = "KV cache";
  t.push_back({.name = "block-size",
               .group = g,
               .field = &c::block_size,
               .unit = "tokens",
               .choices = {"16", "32"},
               .meaning = "tokens in one KV block"});
  for (const auto& [name, field, what, unset] :
       {std::tuple{"kv-cache-dtype", &c::kv_cache_dtype, "K and V are", "as the device does best"},
        std::tuple{"kv-cache-dtype-k", &c::kv_cache_dtype_k, "K alone is", "as kv-cache-dtype"},
        std::tuple{"kv-cache-dtype-v", &c::kv_cache_dtype_v, "V alone is", "as kv-cache-dtype"}})
    t.push_back({.name = name,
                 .group = g,
                 .field = field,
                 .choices = {"auto", "f16", "bf16", "int8", "fp8_e4m3", "fp8_e5m2", "int4"},
                 .meaning = std::string("how ") + what + " stored",
                 .unset = unset});
  t.push_back({.name = "kv-cache-precise-layers",
               .group = g,
               .field = &c::kv_cache_precise_layers,
               .meaning = "FIRST,LAST: so many of the first and of the last layers stay f16",
               .unset = "none"});
  t.push_back({.name = "num-kv-blocks",
               .group = g,
               .field = &c::num_kv_blocks,
               .unit = "blocks",
               .low = 1,
               .high = 1 << 28,
               .meaning = "KV blocks in the pool; overrides kv-cache-memory",
               .unset = "from kv-cache-memory"});
  t.push_back(
      {.name = "kv-cache-memory",
       .group = g,
       .field = &c::kv_cache_memory,
       .low = MiB,
       .high = 16 * TiB,
       .meaning = "size of the KV pool; only the default shrinks to the memory that is free"});
  t.push_back({.name = "enable-prefix-caching",
               .group = g,
               .field = &c::enable_prefix_caching,
               .meaning = "keep blocks of ended requests for prompts with the same prefix"});
  t.push_back({.name = "prewarm",
               .group = g,
               .field = &c::prewarm,
               .meaning = "file of prompts that are computed into the prefix cache before serving",
               .unset = "none"});
  t.push_back({.name = "kv-offloading-size",
               .group = g,
               .field = &c::kv_offloading_bytes,
               .high = 16 * TiB,
               .meaning = "host tier of the KV cache; a plain number is GiB",
               .unset = "no host tier",
               .plain_unit = 1ull << 30});
  t.push_back({.name = "preemption",
               .group = g,
               .field = &c::preemption,
               .choices = {"auto", "park", "recompute"},
               .meaning = "what happens to a sequence that must give its blocks to another",
               .unset = "park when there is a host tier, else recompute"});
  t.push_back({.name = "kv-transfer-timeout",
               .group = g,
               .field = &c::kv_transfer_timeout_s,
               .unit = "s",
               .low = 0.01,
               .high = 3600,
               .meaning = "a copy between the tiers that takes longer counts as failed"});
  t.push_back({.name = "kv-transfer-chunk-blocks",
               .group = g,
               .field = &c::kv_transfer_chunk_blocks,
               .unit = "blocks",
               .low = 1,
               .high = 4096,
               .meaning = "largest number of blocks in one copy between the tiers"});
}

void add_scheduling(std::vector<option_spec>& t) {
  const std::string g = "scheduling";
  t.push_back({.name = "max-model-len",
               .aliases = {"c", "ctx-size"},
               .group = g,
               .field = &c::max_model_len,
               .unit = "tokens",
               .high = 1 << 24,
               .meaning = "longest sequence, prompt and answer together",
               .unset = "the model's"});
  t.push_back({.name = "max-num-seqs",
               .aliases = {"parallel"},
               .group = g,
               .field = &c::max_num_seqs,
               .low = 1,
               .high = 4096,
               .meaning = "sequences that run at once; at most max-num-batched-tokens"});
  t.push_back({.name = "scheduling-policy",
               .group = g,
               .field = &c::scheduling_policy,
               .choices = {"fcfs", "priority"},
               .meaning = "first come first served, or by \"priority\", which any client may set"});
  t.push_back({.name = "max-num-batched-tokens",
               .group = g,
               .field = &c::max_num_batched_tokens,
               .unit = "tokens",
               .low = 1,
               .high = 65536,
               .meaning = "most tokens computed in one step"});
  t.push_back({.name = "max-num-queued-reqs",
               .group = g,
               .field = &c::max_num_queued_reqs,
               .low = 1,
               .high = 1 << 20,
               .meaning = "requests that may wait in the queue; further ones are refused"});
  t.push_back(
      {.name = "max-step-ms",
       .group = g,
       .field = &c::max_step_ms,
       .unit = "ms",
       .low = 1,
       .high = 60000,
       .meaning = "target time of one step; prefill chunks are made small enough to meet it"});
  add_seconds(t, g, "queue-timeout", &c::queue_timeout_s, 0, long_time_s,
              "longest time in the queue; 0 = no limit");
  add_seconds(t, g, "first-token-timeout", &c::first_token_timeout_s, 0, long_time_s,
              "longest time until the first token; 0 = no limit");
  add_seconds(t, g, "request-timeout", &c::request_timeout_s, 0, long_time_s,
              "longest time of a whole request; 0 = no limit");
  t.push_back({.name = "on-disconnect",
               .group = g,
               .field = &c::on_disconnect,
               .choices = {"stop", "keep_prefix"},
               .meaning = "blocks of a client that leaves: free them, or keep its prefix cached"});
}

}  // namespace troupe
