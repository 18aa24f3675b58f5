#include "tools/cli/process_events.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <stdexcept>

namespace troupe {
namespace {

enum class phase { starting, serving, ending };

// What the handler touches: lock-free words, and a descriptor that is never closed, since a signal
// may come after the object has gone.
std::atomic<phase> now{phase::starting};
std::atomic<int> signal_count{0};
std::atomic<int> wake_fd{-1};
static_assert(std::atomic<phase>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

void wake() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = write(wake_fd, &one, sizeof one);
}

void on_signal(int number) {
  const int error = errno;
  const phase seen = now;
  if (seen == phase::starting) _exit(0);
  if (seen == phase::ending || ++signal_count > 2) _exit(128 + number);
  wake();
  errno = error;
}

bool ignored(int number) {
  struct sigaction before {};
  return sigaction(number, nullptr, &before) == 0 && before.sa_handler == SIG_IGN;
}

}  // namespace

process_events::process_events() {
  now = phase::starting;
  signal_count = 0;
  if (wake_fd < 0) wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (wake_fd < 0) throw std::runtime_error("no descriptor left for signals");
  std::signal(SIGPIPE, SIG_IGN);
  struct sigaction action {};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART;
  sigfillset(&action.sa_mask);
  sigset_t handled;
  sigemptyset(&handled);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) {
    // SIGHUP says that the terminal has closed; nohup has it ignored.
    if (number == SIGHUP && ignored(number)) continue;
    sigaction(number, &action, nullptr);
    sigaddset(&handled, number);
  }
  // A parent may have left them blocked.
  pthread_sigmask(SIG_UNBLOCK, &handled, nullptr);
}

process_events::~process_events() {
  now = phase::ending;
}

void process_events::serving() {
  now = phase::serving;
}

int process_events::signals() const {
  return signal_count;
}

void process_events::changed() {
  wake();
}

bool process_events::wait(const std::function<bool()>& condition, std::optional<time_point> until) {
  while (!condition()) {
    int timeout_ms = -1;
    if (until) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(*until - std::chrono::steady_clock::now());
      if (left.count() <= 0) return false;
      // An hour at most at a time: poll() takes an int.
      timeout_ms = static_cast<int>(std::min<std::int64_t>(left.count(), 3'600'000));
    }
    pollfd fd{wake_fd, POLLIN, 0};
    poll(&fd, 1, timeout_ms);
    std::uint64_t count;
    [[maybe_unused]] const auto got = read(wake_fd, &count, sizeof count);  // never waits
  }
  return true;
}

}  // namespace troupe
