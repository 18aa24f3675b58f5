#include "actors/embedding/client_sink.hpp"

namespace troupe {

void client_sink::attach(std::shared_ptr<core::generation> handle) {
  const std::lock_guard lock(mutex_);
  handle_ = std::move(handle);
  if (acknowledged_early_) handle_->delivered();
  if (cancelled_early_) handle_->cancel(cancelled_early_->why, cancelled_early_->seen_at);
}

// The handle's calls are messages to an actor: they return at once, so holding the mutex is safe.
void client_sink::acknowledge() {
  const std::lock_guard lock(mutex_);
  handle_ ? handle_->delivered() : void(acknowledged_early_ = true);
}

void client_sink::cancel(core::end_reason why, core::time_us seen_at) {
  const std::lock_guard lock(mutex_);
  if (handle_)
    handle_->cancel(why, seen_at);
  else if (!cancelled_early_)  // the first reason wins, as in the scheduler
    cancelled_early_ = early_cancel{why, seen_at};
}

}  // namespace troupe
