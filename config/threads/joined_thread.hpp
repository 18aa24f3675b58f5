// The one way a thread of ours is started: with a name (shown by `ps -L` and gdb), with a stack of
// a known size, and with an error that names the limit when the system refuses. Also what the
// threads of libraries need: a look whether enough threads can be made, and a sufficient default
// stack. Knows nothing of what the threads do.
#pragma once
#include <pthread.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>

namespace troupe {

/// The stack of every thread of ours. A step of the CPU kernels needs about 0.7 MiB of it; 8 MiB is
/// glibc's usual default, which all tests run with. Only pages that are used cost memory.
inline constexpr std::size_t thread_stack_bytes = std::size_t{8} << 20;

/// One line: how many threads were wanted, why there are not so many, and which limits apply.
struct thread_error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Joins in its destructor; its owner makes the work end first. An exception that leaves the
/// work ends the process, as with std::thread.
class joined_thread {
 public:
  joined_thread() = default;
  /// `name`: at most 15 characters. Throws thread_error; then nothing was started.
  joined_thread(const char* name, std::function<void()> work);
  ~joined_thread();
  joined_thread(joined_thread&& other) noexcept;
  joined_thread& operator=(joined_thread&& other) noexcept;

  bool joinable() const { return joinable_; }
  void join();

 private:
  pthread_t thread_{};
  bool joinable_ = false;
};

/// Throws thread_error unless `count` more threads can run now. It starts that many, ends them, and
/// returns when the system has forgotten them, so that they do not count against the real ones.
void require_threads(std::uint32_t count);

/// From here on threads that name no stack size, those of libraries, get at least
/// thread_stack_bytes: glibc takes their size from `ulimit -s`. For the whole process; never makes
/// it smaller. Throws thread_error when the C library refuses.
void raise_default_stack();

}  // namespace troupe
