// Signals and news from other threads as one thing that the main thread of `troupe serve` waits
// for. SIGTERM, SIGINT and SIGHUP end the process in every state: while it starts at once, while it
// serves as asked for here, after that at once again. They are handled, not blocked, so no thread,
// of ours or of a library, can keep them waiting. One object a process. Decides nothing.
#pragma once
#include <chrono>
#include <functional>
#include <optional>

namespace troupe {

class process_events {
 public:
  /// Installs the handlers. From here to serving() a signal ends the process with exit code 0: no
  /// client has been let in. Throws std::runtime_error without a free descriptor.
  process_events();
  /// From here on a signal ends the process at once, with exit code 128 + its number.
  ~process_events();
  process_events(const process_events&) = delete;
  process_events& operator=(const process_events&) = delete;

  /// From now on the first two signals only count; a third one ends the process as above.
  void serving();
  int signals() const;

  /// Any thread: what a condition below looks at may have changed.
  void changed();
  using time_point = std::chrono::steady_clock::time_point;
  /// Sleeps until the condition holds, which it looks at first, after each signal and after
  /// changed(). False: the time was over first.
  bool wait(const std::function<bool()>& condition, std::optional<time_point> until = {});
};

}  // namespace troupe
