// Fork and join for kernels: persistent threads that claim numbered chunks of one job at a time;
// the calling thread works too. Each thread begins with a share of its own, neighbours in memory,
// and then helps with the others'; a chunk is claimed, never assigned, so a thread that lost its
// core delays only the chunk it holds. Between jobs workers spin for some tens of microseconds,
// then sleep. One caller at a time; chunks must not throw.
#pragma once
#include <atomic>
#include <cstdint>
#include <vector>

#include "config/threads/joined_thread.hpp"
#include "gpu/cpu/threads/futex_wait.hpp"

namespace troupe::gpu {

class worker_pool {
 public:
  /// `threads` >= 1 counts the caller: threads - 1 are started. Throws thread_error; then none is
  /// left running.
  explicit worker_pool(std::uint32_t threads);
  ~worker_pool();
  worker_pool(const worker_pool&) = delete;
  worker_pool& operator=(const worker_pool&) = delete;

  std::uint32_t threads() const { return static_cast<std::uint32_t>(shares_.size()); }

  /// Calls function(i) once for every i < count, on any thread; returns when all are done, and
  /// their writes are visible.
  template <class Function>
  void run(std::uint32_t count, Function&& function) {
    run_chunks(
        count, [](void* context, std::uint32_t i) { (*static_cast<Function*>(context))(i); },
        const_cast<void*>(static_cast<const void*>(&function)));
  }

 private:
  using chunk_function = void (*)(void*, std::uint32_t);
  void run_chunks(std::uint32_t count, chunk_function function, void* context);
  void work(std::uint32_t job, std::uint32_t who);
  void work_share(std::uint32_t job, std::uint32_t share);
  void serve(std::uint32_t who);
  void end_workers();
  /// The first chunk of a share of `count` chunks; of the share behind the last: `count`.
  std::uint32_t begin_of(std::uint32_t share, std::uint32_t count) const {
    return static_cast<std::uint32_t>(std::uint64_t{count} * share / threads());
  }

  // Job number (high half) and next chunk (low half) in one word: a claim can never touch another
  // job. The fields below are rewritten only when every chunk of the last job is done and the words
  // are closed; a late reader's claim fails.
  struct alignas(64) share_word {
    std::atomic<std::uint64_t> next{0};
  };
  std::vector<share_word> shares_;  // one a thread
  alignas(64) waitable_counter done_;
  alignas(64) waitable_counter job_;
  std::atomic<std::uint32_t> count_{0};
  std::atomic<chunk_function> function_{nullptr};
  std::atomic<void*> context_{nullptr};
  std::atomic<bool> stop_{false};
  std::vector<joined_thread> workers_;  // last: they use all of the above
};

}  // namespace troupe::gpu
