#include "tests/sim/shells/edge.hpp"

namespace troupe::sim {

edge::edge(caf::actor_config& config, edge_kind kind, std::uint32_t session, tap* watch)
    : caf::monitorable_actor(config), kind_(kind), session_(session), tap_(watch) {}

void edge::connect(caf::strong_actor_ptr target, edge* back) {
  target_ = std::move(target);
  back_ = back;
}

void edge::enqueue(caf::mailbox_element_ptr what, caf::execution_unit*) {
  if (!tap_) return;  // the run is over
  if (session_handle_ && what->content().match_elements<core::submit, protocol::session_actor>())
    what->content().get_mutable_as<protocol::session_actor>(1) = session_handle_;
  const auto number = tap_->sent(*this, what->content());
  waiting_.push_back({number, std::move(what)});
}

void edge::deliver() {
  auto next = std::move(waiting_.front());
  waiting_.pop_front();
  if (!dead_) target_->enqueue(std::move(next.what), nullptr);
}

void edge::attach(caf::attachable_ptr) {
  monitored_ = true;
  if (dead_) send_down(why_dead_);
}

std::size_t edge::detach(const caf::attachable::token&) {
  return std::exchange(monitored_, false) ? 1 : 0;
}

void edge::target_died(const caf::error& why) {
  if (std::exchange(dead_, true)) return;
  why_dead_ = why;
  if (monitored_) send_down(why);
}

void edge::send_down(const caf::error& why) {
  monitored_ = false;
  if (back_)
    back_->enqueue(caf::make_mailbox_element(nullptr, caf::make_message_id(), {},
                                             caf::down_msg{address(), why}),
                   nullptr);
}

void edge::cut() {
  tap_ = nullptr;
  waiting_.clear();
  target_ = nullptr;
  session_handle_ = nullptr;
  back_ = nullptr;
}

}  // namespace troupe::sim
