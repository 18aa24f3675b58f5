// A backend whose "KV cache" is the token history itself: every token is written to its block, and the next token is a
// function of the whole history read back through the block table. A wrong table, a block shared or freed too early,
// or a token planned twice changes the text. A step can be held open, slowed, failed.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "gpu/backend.hpp"

namespace troupe::test {

class fake_backend final : public gpu::backend {
 public:
  fake_backend(std::uint32_t block_size, std::uint32_t num_blocks, token_id first, token_id last)
      : first_(first), last_(last) {
    info_.name = "fake";
    info_.isa = "none";
    info_.threads = 1;
    info_.block_size = block_size;
    info_.num_blocks = num_blocks;
    info_.block_bytes = block_size * sizeof(token_id);
    pool_.assign(std::size_t{block_size} * num_blocks, -1);
  }

  const gpu::device_info& info() const override { return info_; }

  std::unique_ptr<gpu::planned_step> plan(gpu::step_batch batch) override {
    if (fail_next.exchange(false)) throw gpu::batch_error("asked to fail");
    auto out = std::make_unique<planned>();
    out->batch = std::move(batch);
    return out;
  }

  gpu::step_result run(gpu::planned_step& step) override {
    auto& batch = static_cast<planned&>(step).batch;
    {
      std::unique_lock lock(mutex_);
      ++started_;
      changed_.notify_all();
      changed_.wait(lock, [this] { return !held_; });
    }
    if (step_time.count() > 0) std::this_thread::sleep_for(step_time);
    gpu::step_result result;
    result.step = batch.step;
    result.elapsed_us = 1000;
    for (auto& slice : batch.slices) result.slices.push_back(run_slice(slice));
    return result;
  }

  void copy(gpu::block_copy, std::function<void(bool)> done) override { done(false); }

  /// The next token after `history`, as this backend computes it.
  token_id next_token(const std::vector<token_id>& history, std::uint64_t seed) const {
    std::uint64_t hash = seed + 0x9e3779b97f4a7c15ull;
    for (const auto token : history) hash = (hash ^ static_cast<std::uint64_t>(token)) * 0x100000001b3ull;
    hash ^= hash >> 29;
    return first_ + static_cast<token_id>(hash % static_cast<std::uint64_t>(last_ - first_ + 1));
  }

  /// While held, a step that has started does not finish.
  void hold() {
    std::lock_guard lock(mutex_);
    held_ = true;
  }
  void let_go() {
    std::lock_guard lock(mutex_);
    held_ = false;
    changed_.notify_all();
  }
  std::uint64_t steps_started() const {
    std::lock_guard lock(mutex_);
    return started_;
  }
  bool wait_started(std::uint64_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(5), [&] { return started_ >= count; });
  }

  std::atomic<bool> fail_next{false};
  std::chrono::microseconds step_time{0};  ///< set before use

 private:
  struct planned : gpu::planned_step {
    gpu::step_batch batch;
  };

  gpu::slice_result run_slice(const gpu::sequence_slice& slice) {
    const auto cell = [&](std::uint32_t position) -> token_id& {
      return pool_[std::size_t{slice.blocks[position / info_.block_size]} * info_.block_size +
                   position % info_.block_size];
    };
    for (std::uint32_t i = 0; i < slice.tokens.size(); ++i) cell(slice.start + i) = slice.tokens[i];
    gpu::slice_result out;
    out.key = slice.key;
    for (const auto target : slice.score_targets)
      if (target >= 0) out.scores.push_back({target, -1.0f, {}});
    if (slice.sample) {
      std::vector<token_id> history;
      for (std::uint32_t i = 0; i < slice.start + slice.tokens.size(); ++i) history.push_back(cell(i));
      out.sampled = scored_token{next_token(history, slice.sampling.seed), -0.5f, {}};
    }
    return out;
  }

  token_id first_, last_;
  gpu::device_info info_;
  std::vector<token_id> pool_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;
  std::uint64_t started_ = 0;
};

}  // namespace troupe::test
