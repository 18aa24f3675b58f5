// A backend whose "KV cache" is the token history itself (history_pool): a wrong block table, a
// block shared or freed too early, or a token planned twice changes the text. A step can be held,
// slowed or failed. So can a copy: it reads or writes its blocks only when it ends, the latest
// moment that a real device could, so that a block given away too early changes a text as well.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "tests/support/history_pool.hpp"

namespace troupe::test {

class fake_backend final : public gpu::backend {
 public:
  fake_backend(std::uint32_t block_size, std::uint32_t num_blocks, token_id first, token_id last)
      : pool_("fake", block_size, num_blocks, first, last) {
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

  const gpu::device_info& info() const override { return pool_.info(); }

  std::unique_ptr<gpu::planned_step> plan(gpu::step_batch batch) override {
    if (fail_next.exchange(false)) throw gpu::batch_error("asked to fail");
    auto out = std::make_unique<planned_batch>();
    out->batch = std::move(batch);
    return out;
  }

  gpu::step_result run(gpu::planned_step& step) override {
    {
      std::unique_lock lock(mutex_);
      ++started_;
      changed_.notify_all();
      changed_.wait(lock, [this] { return !held_; });
    }
    if (step_time.count() > 0) std::this_thread::sleep_for(step_time);
    return pool_.run(static_cast<planned_batch&>(step).batch);
  }

  void copy(gpu::block_copy ask, std::function<void(bool)> done) override {
    if (refuse_next_copy.exchange(false)) throw gpu::batch_error("asked to refuse");
    pool_.check(ask);
    std::lock_guard lock(mutex_);
    copies_.push_back({std::move(ask), std::move(done)});
    ++copies_started_;
    changed_.notify_all();
  }

  /// The next token after `history`, as this backend computes it.
  token_id next_token(const std::vector<token_id>& history, std::uint64_t seed) const {
    return pool_.next_token(history, seed);
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
    return changed_.wait_for(lock, std::chrono::seconds(300), [&] { return started_ >= count; });
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
    return changed_.wait_for(lock, std::chrono::seconds(300),
                             [&] { return copies_started_ >= count; });
  }
  /// Ended: `done` has returned.
  bool wait_copies_ended(std::uint64_t count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(300),
                             [&] { return copies_ended_ >= count; });
  }
  std::uint64_t copies_started() const {
    std::lock_guard lock(mutex_);
    return copies_started_;
  }

  std::atomic<bool> fail_next{false};
  std::atomic<bool> refuse_next_copy{false};  ///< copy() throws
  std::atomic<std::uint32_t> fail_copies{
      0};  ///< that many of the next copies end with ok = false, half done
  /// The last byte of that many of the next copies to the host changes as soon as `done` has
  /// returned. No copy back may have been asked for by then.
  std::atomic<std::uint32_t> corrupt_copies{0};
  std::chrono::microseconds copy_time{0};  ///< set before use
  std::chrono::microseconds step_time{0};  ///< set before use

 private:
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
      pool_.copy(job.ask, ok);
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

  history_pool pool_;
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
