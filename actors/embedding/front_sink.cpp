#include "actors/embedding/front_sink.hpp"

namespace troupe {

void front_sink::attach(std::shared_ptr<core::generation> handle) {
  const std::lock_guard lock(mutex_);
  handle_ = std::move(handle);
  if (owes_delivered_) handle_->delivered();
  if (owes_cancel_) handle_->cancel(owes_cancel_->why, owes_cancel_->seen_at);
}

void front_sink::acknowledge() {
  const std::lock_guard lock(mutex_);
  handle_ ? handle_->delivered() : void(owes_delivered_ = true);
}

void front_sink::cancel(core::end_reason why, core::time_us seen_at) {
  const std::lock_guard lock(mutex_);
  if (handle_)
    handle_->cancel(why, seen_at);
  else if (!owes_cancel_)
    owes_cancel_ = ask{why, seen_at};
}

}  // namespace troupe
