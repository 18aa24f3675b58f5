#include "actors/runtime/runtime_limits.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <stdexcept>
#include <string>

namespace troupe {
namespace {

std::int64_t unix_seconds() {
  return std::chrono::duration_cast<std::chrono::seconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

core::scheduler_limits make_limits(const runtime_config& config, const gpu::loaded_model& model,
                                   const gpu::device_info& device) {
  core::scheduler_limits limits;
  limits.max_num_seqs = config.max_num_seqs;
  limits.max_num_batched_tokens = config.max_num_batched_tokens;
  limits.max_step_us = std::uint64_t{config.max_step_ms} * 1000;
  limits.max_num_queued_reqs = config.max_num_queued_reqs;
  limits.block_size = device.kv.block_size;
  limits.num_blocks = device.kv.num_blocks() / static_cast<std::uint32_t>(device.kv.groups.size());
  limits.windows.clear();
  for (const auto& group : device.kv.groups) {
    if (group.blocks != limits.num_blocks)
      throw std::invalid_argument(
          "device " + device.name + ": the layer groups of its KV cache have " +
          std::to_string(group.blocks) + " and " + std::to_string(limits.num_blocks) +
          " blocks, they need the same number");
    limits.windows.push_back(group.window);
  }
  limits.model_context = config.max_model_len == 0
                             ? model.config.context
                             : std::min(model.config.context, config.max_model_len);
  limits.end_tokens = model.vocabulary.end_tokens();
  limits.vocab = model.config.vocab;
  limits.deadlines = {to_ms(config.queue_timeout_s), to_ms(config.first_token_timeout_s),
                      to_ms(config.request_timeout_s)};
  limits.prefix_caching = config.enable_prefix_caching;
  limits.stall_limit_us = to_ms(config.reader_stall_timeout_s) * 1000;
  limits.park = parks(config);
  limits.move_chunk_blocks = config.kv_transfer_chunk_blocks;
  limits.move_limit_us = to_ms(config.kv_transfer_timeout_s) * 1000;
  return limits;
}

core::model_card make_card(const runtime_config& config, const gpu::loaded_model& model,
                           const core::scheduler_limits& limits) {
  core::model_card card;
  card.name = config.served_model_names.empty()
                  ? std::filesystem::path(config.model).stem().string()
                  : config.served_model_names.front();
  card.context = limits.effective_context();
  card.model_context = limits.model_context;
  card.created = unix_seconds();
  card.vocab = model.config.vocab;
  if (model.vocabulary.bos() >= 0) card.bos = model.vocabulary.bytes(model.vocabulary.bos());
  if (const auto eos = model.file.find_uint("tokenizer.ggml.eos_token_id"))
    card.eos = model.vocabulary.bytes(static_cast<token_id>(*eos));
  if (const auto* text = model.file.find_string("tokenizer.chat_template"))
    card.chat_template = *text;
  return card;
}

bool parks(const runtime_config& config) {
  return config.kv_offloading_bytes > 0 && config.preemption != "recompute";
}

std::uint64_t to_ms(double seconds) {
  return static_cast<std::uint64_t>(seconds * 1000.0);
}

}  // namespace troupe
