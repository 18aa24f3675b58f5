// Two callbacks per request, for programs that want the stream of text and have no actors. A client
// of core::generation_engine. All callbacks run on one thread that this object owns, so a callback
// that blocks delays the other requests of the same object and never the engine: a request has at
// most one piece of text outstanding, and pauses while that one is not handled.
#pragma once
#include <functional>
#include <memory>

#include "actors/api/generation.hpp"

namespace troupe {

class callback_client {
 public:
  /// The next piece of text. A callback that throws ends its request as cancelled; `on_end` gets
  /// what it threw as the message.
  using delta_call = std::function<void(const core::generation_delta&)>;
  /// Called exactly once per request, as the last call; all text has gone through delta_call
  /// before. What it throws is dropped.
  using end_call = std::function<void(const core::generation_end&)>;

  /// The engine must outlive this object.
  explicit callback_client(core::generation_engine&);
  /// Ends the requests that still run as client_gone and waits for each on_end. Not from a
  /// callback: it joins the thread that runs them.
  ~callback_client();
  callback_client(const callback_client&) = delete;
  callback_client& operator=(const callback_client&) = delete;

  /// Thread-safe, also from a callback. The handle is for cancel(why, engine.now()) and may be
  /// dropped: the request goes on.
  std::shared_ptr<core::generation> submit(core::generation_request, delta_call on_delta,
                                           end_call on_end);

 private:
  struct state;
  struct sink;
  std::unique_ptr<state> state_;
};

}  // namespace troupe
