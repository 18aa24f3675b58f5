// What the fronts' sinks share: the way from a sink back to its generation, whose handle only
// exists once submit() has returned, while the first events may come before that. Knows no actor.
#pragma once
#include <memory>
#include <mutex>
#include <optional>

#include "actors/api/generation.hpp"

namespace troupe {

class front_sink : public core::generation_sink {
 public:
  /// Once, after submit(); carries out what was asked for before.
  void attach(std::shared_ptr<core::generation> handle);
  /// The last delta is out.
  void acknowledge();
  void cancel(core::end_reason why, core::time_us seen_at);

 private:
  struct ask {
    core::end_reason why;
    core::time_us seen_at;
  };
  std::mutex mutex_;
  std::shared_ptr<core::generation> handle_;
  bool owes_delivered_ = false;
  std::optional<ask> owes_cancel_;
};

}  // namespace troupe
