// What the sinks of callback_client and answer_future share: the path from a sink back to its
// generation. The engine may call the sink from an actor's thread before submit() has returned the
// handle, so an acknowledgement or a cancel that comes too early is kept until attach(). Knows no
// actor.
#pragma once
#include <memory>
#include <mutex>
#include <optional>

#include "actors/api/generation.hpp"

namespace troupe {

class client_sink : public core::generation_sink {
 public:
  /// Once, after submit(); carries out what was asked for before.
  void attach(std::shared_ptr<core::generation> handle);
  /// The last delta has been handled: the session may send the next.
  void acknowledge();
  void cancel(core::end_reason why, core::time_us seen_at);

 private:
  struct early_cancel {
    core::end_reason why;
    core::time_us seen_at;
  };
  std::mutex mutex_;
  std::shared_ptr<core::generation> handle_;  // null until attach()
  bool acknowledged_early_ = false;  // at most one delta is outstanding, so a flag is enough
  std::optional<early_cancel> cancelled_early_;
};

}  // namespace troupe
