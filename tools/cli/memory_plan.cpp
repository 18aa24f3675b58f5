#include "tools/cli/memory_plan.hpp"

#include <fmt/format.h>

#include <limits>
#include <stdexcept>

namespace troupe {

pool_plan plan_pool(const runtime_config& config, const gpu::kv_format& format,
                    std::uint64_t weight_bytes, std::uint64_t available) {
  const auto block_bytes = format.token_row_bytes();
  const auto blocks = config.num_kv_blocks ? std::uint64_t{*config.num_kv_blocks}
                                           : config.kv_cache_memory / block_bytes;
  const auto* asked = config.num_kv_blocks ? "--num-kv-blocks" : "--kv-cache-memory";
  if (blocks == 0)
    throw std::runtime_error(fmt::format("{}: {} holds no block of {}", asked,
                                         format_size(config.kv_cache_memory),
                                         format_size(block_bytes)));
  if (blocks > std::numeric_limits<std::uint32_t>::max())
    throw std::runtime_error(fmt::format("{}: {} holds more than 2^32 - 1 blocks of {}", asked,
                                         format_size(config.kv_cache_memory),
                                         format_size(block_bytes)));
  const auto fixed = weight_bytes + config.kv_offloading_bytes + working_memory;
  const auto fixed_words = fmt::format(
      "weights {}{} and {} to work in", format_size(weight_bytes),
      config.kv_offloading_bytes == 0 ? ""
                                      : ", host tier " + format_size(config.kv_offloading_bytes),
      format_size(working_memory));
  if (fixed + block_bytes > available)
    throw std::runtime_error(
        fmt::format("memory: {} leave no KV block of {} in the {} this process may use",
                    fixed_words, format_size(block_bytes), format_size(available)));
  const auto fitting = (available - fixed) / block_bytes;
  if (blocks <= fitting) return {static_cast<std::uint32_t>(blocks), {}};
  if (config.num_kv_blocks || config.kv_cache_memory_given)
    throw std::runtime_error(fmt::format(
        "{}: {} blocks are {}, with {} more than the {} this process may use; {} blocks ({}) fit",
        asked, blocks, format_size(blocks * block_bytes), fixed_words, format_size(available),
        fitting, format_size(fitting * block_bytes)));
  return {static_cast<std::uint32_t>(fitting),
          fmt::format(
              "the KV pool is {} instead of {}: with {} that is all of the {} this process may use",
              format_size(fitting * block_bytes), format_size(config.kv_cache_memory), fixed_words,
              format_size(available))};
}

}  // namespace troupe
