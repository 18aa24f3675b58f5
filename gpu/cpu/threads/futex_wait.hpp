// A counter that threads sleep on. std::atomic::wait of this compiler's library first yields the
// core several times, which hands it to whatever else runs on the machine, and looks up sleepers in
// a table shared by the process; this calls the kernel at once, and only where a thread sleeps.
// Nothing here spins: the caller does, as long as it wants, before it sleeps.
#pragma once
#include <atomic>
#include <climits>
#include <cstdint>
#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace troupe::gpu {

class waitable_counter {
 public:
  std::uint32_t load() const { return value_.load(std::memory_order_acquire); }
  const std::atomic<std::uint32_t>& value() const { return value_; }

  /// Sleeps until wake() is called after the value has left `old`; may return early.
  void sleep_while(std::uint32_t old) {
    sleepers_.fetch_add(1);
    if (value_.load() == old) wait(old);
    sleepers_.fetch_sub(1);
  }

  /// Wakes no thread.
  void store(std::uint32_t value) { value_.store(value, std::memory_order_relaxed); }

  /// Returns the new value.
  std::uint32_t add_one() { return value_.fetch_add(1) + 1; }

  /// Wakes every sleeping thread. Both sides order the value before `sleepers_`, so either the
  /// sleeper sees the new value or this sees the sleeper.
  void wake() {
    if (sleepers_.load() != 0) wake_all();
  }

 private:
#if defined(__linux__)
  void wait(std::uint32_t old) {
    static_assert(sizeof(value_) == 4);
    syscall(SYS_futex, &value_, FUTEX_WAIT_PRIVATE, old, nullptr, nullptr, 0);
  }
  void wake_all() {
    syscall(SYS_futex, &value_, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
  }
#else
  void wait(std::uint32_t old) {
    value_.wait(old);
  }
  void wake_all() {
    value_.notify_all();
  }
#endif

  std::atomic<std::uint32_t> value_{0};
  std::atomic<std::uint32_t> sleepers_{0};
};

}  // namespace troupe::gpu
