#include "config/threads/joined_thread.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "config/threads/thread_limits.hpp"

namespace troupe {
namespace {

struct thread_start {
  std::string name;
  std::function<void()> work;
};

class attributes {
 public:
  attributes() {
    pthread_attr_init(&value_);
    // A larger default is kept: an operator who raised `ulimit -s` had a reason.
    if (pthread_attr_t system; pthread_getattr_default_np(&system) == 0) {
      pthread_attr_getstacksize(&system, &default_stack_);
      pthread_attr_destroy(&system);
    }
    pthread_attr_setstacksize(&value_, std::max(default_stack_, thread_stack_bytes));
  }
  ~attributes() { pthread_attr_destroy(&value_); }
  attributes(const attributes&) = delete;
  attributes& operator=(const attributes&) = delete;

  const pthread_attr_t* get() const { return &value_; }
  std::size_t default_stack() const { return default_stack_; }

 private:
  pthread_attr_t value_;
  std::size_t default_stack_ = 0;
};

/// No exception is caught here, so that one that leaves the work reaches std::terminate with the
/// stack still whole.
void* run(void* given) {
  const std::unique_ptr<thread_start> start(static_cast<thread_start*>(given));
  // At most 15 characters, or the call fails and the thread keeps its parent's name.
  pthread_setname_np(pthread_self(), start->name.c_str());
  start->work();
  return nullptr;
}

/// Until the kernel has let go of an ended thread: pthread_join() returns a little before that, and
/// until then the thread counts against the limits.
void wait_forgotten(pid_t thread) {
  while (syscall(SYS_tgkill, getpid(), thread, 0) == 0) usleep(100);
}

}  // namespace

joined_thread::joined_thread(const char* name, std::function<void()> work) {
  auto start = std::make_unique<thread_start>(thread_start{name, std::move(work)});
  const attributes with;
  const int error = pthread_create(&thread_, with.get(), run, start.get());
  if (error != 0)
    throw thread_error("thread " + start->name + " cannot be started beside the " +
                       std::to_string(running_threads()) + " that run: " + std::strerror(error) +
                       " (" + thread_limits() + ")");
  // Only now: run() takes it over when the thread exists.
  [[maybe_unused]] auto* const owned_by_the_thread = start.release();
  joinable_ = true;
}

joined_thread::~joined_thread() {
  join();
}

joined_thread::joined_thread(joined_thread&& other) noexcept
    : thread_(other.thread_), joinable_(std::exchange(other.joinable_, false)) {}

joined_thread& joined_thread::operator=(joined_thread&& other) noexcept {
  join();
  thread_ = other.thread_;
  joinable_ = std::exchange(other.joinable_, false);
  return *this;
}

void joined_thread::join() {
  if (std::exchange(joinable_, false)) pthread_join(thread_, nullptr);
}

void require_threads(std::uint32_t count) {
  const auto before = running_threads();
  // Their kernel ids, to wait until each is forgotten.
  std::vector<pid_t> ids(count);
  std::string refused;
  std::uint32_t made = 0;
  {
    // All of them wait, so that they run at the same time; `all_made` outlives them.
    std::promise<void> all_made;
    const auto gate = all_made.get_future().share();
    std::vector<joined_thread> threads;
    threads.reserve(count);
    try {
      for (; made < count; ++made)
        threads.emplace_back("troupe.probe", [gate, &id = ids[made]] {
          id = gettid();
          gate.wait();
        });
    } catch (const thread_error&) {
      refused = thread_limits();
    }
    all_made.set_value();
  }
  ids.resize(made);
  for (const auto id : ids) wait_forgotten(id);
  if (made < count)
    throw thread_error(std::to_string(before + count) + " threads are needed, the system allows " +
                       std::to_string(before + made) + ": " + refused);
}

void raise_default_stack() {
  const attributes wanted;
  if (wanted.default_stack() >= thread_stack_bytes) return;
  if (const int error = pthread_setattr_default_np(wanted.get()))
    throw thread_error("the default stack of threads, " + std::to_string(wanted.default_stack()) +
                       " bytes (ulimit -s), cannot be raised to " +
                       std::to_string(thread_stack_bytes) + ": " + std::strerror(error));
}

}  // namespace troupe
