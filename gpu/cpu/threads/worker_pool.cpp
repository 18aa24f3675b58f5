#include "gpu/cpu/threads/worker_pool.hpp"

#include <chrono>
#include <thread>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace troupe::gpu {

namespace {

constexpr std::uint32_t closed = 0xFFFFFFFFu;  // as chunk number: nothing to claim
/// Longer than the gap between two forks of a step, so that workers sleep only between steps.
constexpr auto spin_time = std::chrono::microseconds(40);

void relax() {
#if defined(__x86_64__)
  _mm_pause();
#else
  std::this_thread::yield();
#endif
}

/// Spins until value != old or the time is over; true when it changed.
bool spin_while_equal(const waitable_counter& word, std::uint32_t old) {
  const auto end = std::chrono::steady_clock::now() + spin_time;
  do {
    for (int i = 0; i < 32; ++i) {
      if (word.load() != old) return true;
      relax();
    }
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

}  // namespace

worker_pool::worker_pool(std::uint32_t threads) : shares_(threads) {
  try {
    for (std::uint32_t i = 1; i < threads; ++i)
      workers_.emplace_back("troupe.compute", [this, i] { serve(i); });
  } catch (...) {  // those that run would wait for ever, and their owner with them
    end_workers();
    throw;
  }
}

worker_pool::~worker_pool() {
  end_workers();
}

void worker_pool::end_workers() {
  stop_.store(true);
  job_.add_one();
  job_.wake();
  workers_.clear();  // joins
}

void worker_pool::run_chunks(std::uint32_t count, chunk_function function, void* context) {
  if (workers_.empty() || count <= 1) {
    for (std::uint32_t i = 0; i < count; ++i) function(context, i);
    return;
  }
  const std::uint32_t job = job_.load() + 1;
  // Closed before the fields change: a late worker that sees a new field also sees this, and its
  // claim fails.
  for (share_word& share : shares_) {
    share.next.store(std::uint64_t{job} << 32 | closed, std::memory_order_relaxed);
  }
  count_.store(count, std::memory_order_release);
  function_.store(function, std::memory_order_release);
  context_.store(context, std::memory_order_release);
  done_.store(0);
  for (std::uint32_t i = 0; i < threads(); ++i) {
    shares_[i].next.store(std::uint64_t{job} << 32 | begin_of(i, count), std::memory_order_release);
  }
  job_.add_one();
  job_.wake();
  work(job, 0);
  for (std::uint32_t done; (done = done_.load()) != count;) {
    if (!spin_while_equal(done_, done)) done_.sleep_while(done);
  }
}

/// Its own share first, whose data lie together in memory, then the others' in turn.
void worker_pool::work(std::uint32_t job, std::uint32_t who) {
  for (std::uint32_t i = 0; i < threads(); ++i) work_share(job, (who + i) % threads());
}

void worker_pool::work_share(std::uint32_t job, std::uint32_t share) {
  std::atomic<std::uint64_t>& word = shares_[share].next;
  std::uint64_t next = word.load(std::memory_order_acquire);
  while (next >> 32 == job) {
    const std::uint32_t count = count_.load(std::memory_order_acquire);
    const chunk_function function = function_.load(std::memory_order_acquire);
    void* const context = context_.load(std::memory_order_acquire);
    const std::uint32_t index = static_cast<std::uint32_t>(next);
    if (index >= begin_of(share + 1, count)) return;
    if (!word.compare_exchange_weak(next, next + 1, std::memory_order_acq_rel)) continue;
    function(context, index);
    // The last chunk's count ends the job, so the caller may have gone on when wake runs; the word
    // lives on.
    if (done_.add_one() == count) done_.wake();
    next = word.load(std::memory_order_acquire);
  }
}

void worker_pool::serve(std::uint32_t who) {
  std::uint32_t seen = 0;
  for (;;) {
    if (!spin_while_equal(job_, seen)) job_.sleep_while(seen);
    const std::uint32_t job = job_.load();
    if (job == seen) continue;
    if (stop_.load()) return;
    seen = job;
    work(job, who);
  }
}

}  // namespace troupe::gpu
