// A backend whose "KV cache" is the token history itself: every token is written to its block, and the next token is a
// function of the whole history read back through the block table. A wrong table, a block shared or freed too early,
// or a token planned twice changes the text. A step can be held open, slowed, failed; so can a copy, which reads or
// writes its blocks only when it ends, so that a block given away too early changes a text, too.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
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
    copier_ = std::thread([this] { serve_copies(); });
  }
  /// Ends the copies that are still under way, held or not.
  ~fake_backend() override {
    {
      std::lock_guard lock(mutex_);
      closing_ = true;
      changed_.notify_all();
    }
    copier_.join();
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

  void copy(gpu::block_copy ask, std::function<void(bool)> done) override {
    if (refuse_next_copy.exchange(false)) throw gpu::batch_error("asked to refuse");
    if (ask.host.size() != ask.blocks.size()) throw gpu::batch_error("copy: host places and blocks differ");
    for (std::size_t i = 0; i < ask.blocks.size(); ++i)
      if (ask.blocks[i] >= info_.num_blocks || ask.host[i].size() != info_.block_bytes)
        throw gpu::batch_error("copy: block or host size does not fit");
    std::lock_guard lock(mutex_);
    copies_.push_back({std::move(ask), std::move(done)});
    ++copies_started_;
    changed_.notify_all();
  }

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

  /// While held, no copy ends.
  void hold_copies() {
    std::lock_guard lock(mutex_);
    copies_held_ = true;
  }
  void let_copies_go() {
    std::lock_guard lock(mutex_);
    copies_held_ = false;
    changed_.notify_all();
  }
  /// Lets the oldest copy end that is held; the others stay.
  void let_one_copy_go() {
    std::lock_guard lock(mutex_);
    ++copies_allowed_;
    changed_.notify_all();
  }
  bool wait_copies_started(std::uint64_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(5), [&] { return copies_started_ >= count; });
  }
  /// Ended: `done` has returned.
  bool wait_copies_ended(std::uint64_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(5), [&] { return copies_ended_ >= count; });
  }
  std::uint64_t copies_started() const {
    std::lock_guard lock(mutex_);
    return copies_started_;
  }

  std::atomic<bool> fail_next{false};
  std::atomic<bool> refuse_next_copy{false};       ///< copy() throws
  std::atomic<std::uint32_t> fail_copies{0};       ///< that many of the next copies end with ok = false, half done
  /// The last byte of that many of the next copies to the host changes as soon as `done` has returned. No copy back
  /// may have been asked for by then.
  std::atomic<std::uint32_t> corrupt_copies{0};
  std::chrono::microseconds copy_time{0};  ///< set before use
  std::chrono::microseconds step_time{0};  ///< set before use

 private:
  struct planned : gpu::planned_step {
    gpu::step_batch batch;
  };

  struct copy_job {
    gpu::block_copy ask;
    std::function<void(bool)> done;
  };

  void serve_copies() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] {
        return closing_ || (!copies_.empty() && (!copies_held_ || copies_allowed_ > 0));
      });
      if (copies_.empty()) return;
      if (copies_held_ && copies_allowed_ > 0) --copies_allowed_;
      const copy_job job = std::move(copies_.front());
      copies_.pop_front();
      lock.unlock();
      if (copy_time.count() > 0) std::this_thread::sleep_for(copy_time);
      const bool out = job.ask.towards == gpu::block_copy::direction::to_host;
      const bool ok = !take_one(fail_copies);
      const auto count = ok ? job.ask.blocks.size() : job.ask.blocks.size() / 2;
      for (std::size_t i = 0; i < count; ++i) {
        token_id* const block = &pool_[std::size_t{job.ask.blocks[i]} * info_.block_size];
        std::byte* const host = job.ask.host[i].data();
        out ? std::memcpy(host, block, info_.block_bytes) : std::memcpy(block, host, info_.block_bytes);
      }
      const bool corrupt = out && ok && take_one(corrupt_copies);
      job.done(ok);
      if (corrupt) job.ask.host.back().back() ^= std::byte{1};
      lock.lock();
      ++copies_ended_;
      changed_.notify_all();
    }
  }

  /// Counts down, unless it is 0 already.
  static bool take_one(std::atomic<std::uint32_t>& left) {
    auto value = left.load();
    while (value > 0 && !left.compare_exchange_weak(value, value - 1)) {
    }
    return value > 0;
  }

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
  std::deque<copy_job> copies_;
  bool copies_held_ = false, closing_ = false;
  std::uint64_t copies_allowed_ = 0, copies_started_ = 0, copies_ended_ = 0;
  std::thread copier_;
};

}  // namespace troupe::test
