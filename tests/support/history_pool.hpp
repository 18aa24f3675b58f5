// The memory of a fake device: its "KV cache" is the token history itself. Every token is written
// to its block, and the next token is a function of the whole history read back through the block
// table, so a block shared, lost or freed too early changes a text. Owned by its device, which says
// when; knows no thread and no fault.
#pragma once
#include <cstring>
#include <vector>

#include "gpu/backend.hpp"

namespace troupe::test {

struct planned_batch final : gpu::planned_step {
  gpu::step_batch batch;
};

class history_pool {
 public:
  /// Tokens drawn are `first` to `last`.
  history_pool(const char* name, std::uint32_t block_size, std::uint32_t num_blocks, token_id first,
               token_id last)
      : first_(first), last_(last), pool_(std::size_t{block_size} * num_blocks, -1) {
    info_.name = name;
    info_.isa = "none";
    info_.threads = 1;
    // A block holds its tokens themselves: no type of K and V has anything to say here but that K
    // and V of one layer, one head and one dimension have the size of a token together.
    static_assert(sizeof(token_id) == 2 * sizeof(std::uint16_t));
    info_.kv = gpu::one_group_format(gpu::kv_f16, 1, 1, 1, block_size, num_blocks);
  }

  const gpu::device_info& info() const { return info_; }

  static token_id next_token(const std::vector<token_id>& history, std::uint64_t seed,
                             token_id first, token_id last) {
    std::uint64_t hash = seed + 0x9e3779b97f4a7c15ull;
    for (const auto token : history)
      hash = (hash ^ static_cast<std::uint64_t>(token)) * 0x100000001b3ull;
    hash ^= hash >> 29;
    return first + static_cast<token_id>(hash % static_cast<std::uint64_t>(last - first + 1));
  }

  token_id next_token(const std::vector<token_id>& history, std::uint64_t seed) const {
    return next_token(history, seed, first_, last_);
  }

  gpu::step_result run(const gpu::step_batch& batch) {
    gpu::step_result result;
    result.step = batch.step;
    result.elapsed_us = 1000;
    // As every device does: all copies come before anything is computed.
    for (const auto& slice : batch.slices)
      for (const auto [from, to] : slice.copies)
        std::memcpy(&pool_.at(std::size_t{to} * info_.kv.block_size),
                    &pool_.at(std::size_t{from} * info_.kv.block_size), info_.kv.block_bytes(0));
    for (const auto& slice : batch.slices) result.slices.push_back(run(slice));
    return result;
  }

  /// Throws batch_error for a copy that no device could carry out.
  void check(const gpu::block_copy& ask) const {
    if (ask.host.size() != ask.blocks.size())
      throw gpu::batch_error("copy: host places and blocks differ");
    for (std::size_t i = 0; i < ask.blocks.size(); ++i)
      if (ask.blocks[i] >= info_.kv.num_blocks() || ask.host[i].size() != info_.kv.block_bytes(0))
        throw gpu::batch_error("copy: block or host size does not fit");
  }
  /// All of it, or the first half of its blocks.
  void copy(const gpu::block_copy& ask, bool whole) {
    const bool out = ask.towards == gpu::block_copy::direction::to_host;
    const auto count = whole ? ask.blocks.size() : ask.blocks.size() / 2;
    for (std::size_t i = 0; i < count; ++i) {
      token_id* const block = &pool_[std::size_t{ask.blocks[i]} * info_.kv.block_size];
      std::byte* const host = ask.host[i].data();
      out ? std::memcpy(host, block, info_.kv.block_bytes(0))
          : std::memcpy(block, host, info_.kv.block_bytes(0));
    }
  }

 private:
  gpu::slice_result run(const gpu::sequence_slice& slice) {
    const auto cell = [&](std::uint32_t position) -> token_id& {
      return pool_[std::size_t{slice.blocks.at(position / info_.kv.block_size)} *
                       info_.kv.block_size +
                   position % info_.kv.block_size];
    };
    const auto size = slice.start + static_cast<std::uint32_t>(slice.tokens.size());
    for (std::uint32_t i = slice.start; i < size; ++i) cell(i) = slice.tokens[i - slice.start];
    gpu::slice_result out;
    out.key = slice.key;
    for (const auto target : slice.score_targets)
      if (target >= 0) out.scores.push_back({target, -1.0f, {}});
    if (slice.sample) {
      std::vector<token_id> history;
      history.reserve(size);
      for (std::uint32_t i = 0; i < size; ++i) history.push_back(cell(i));
      out.sampled = scored_token{next_token(history, slice.decode->sampling.seed), -0.5f, {}};
      for (const auto& tail : slice.tails)
        out.tails.push_back({tail.key, scored_token{next_token(history, tail.seed), -0.5f, {}}});
    }
    return out;
  }

  token_id first_, last_;
  gpu::device_info info_;
  std::vector<token_id> pool_;
};

}  // namespace troupe::test
