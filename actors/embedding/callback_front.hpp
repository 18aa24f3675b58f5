// Two functions per request, for programs that want the stream and know no actor. A client of
// core::generation_engine; calls back from one thread of its own, so that a callback that blocks
// delays the other requests of this front and nothing of the engine: a request whose text waits
// pauses by its credit of one.
#pragma once
#include <functional>
#include <memory>

#include "actors/api/generation.hpp"

namespace troupe {

class callback_front {
 public:
  /// The next piece of text. One that throws ends its request as cancelled, and `on_end` tells what
  /// it threw.
  using delta_call = std::function<void(const core::generation_delta&)>;
  /// Once, always, last; all text has gone through delta_call before. What it throws is dropped.
  using end_call = std::function<void(const core::generation_end&)>;

  /// The engine must outlive the front.
  explicit callback_front(core::generation_engine&);
  /// Ends what still runs as client_gone and waits for each on_end. Not from a callback.
  ~callback_front();
  callback_front(const callback_front&) = delete;
  callback_front& operator=(const callback_front&) = delete;

  /// Thread-safe, also from a callback. The handle may be dropped; it is for cancel(why,
  /// engine.now()).
  std::shared_ptr<core::generation> submit(core::generation_request, delta_call on_delta,
                                           end_call on_end);

 private:
  struct state;
  struct sink;
  std::unique_ptr<state> state_;
};

}  // namespace troupe
