#include "net/websocket/ws_messages.hpp"

#include <optional>
#include <utility>

#include "net/server/json_worker.hpp"

namespace troupe::net {

ws_messages::ws_messages(server_state& state, std::function<void(ws_message)> take,
                         std::function<void()> resumed)
    : state_{state}, take_{std::move(take)}, resumed_{std::move(resumed)} {}

void ws_messages::push(std::string text) {
  bytes_ += text.size();
  waiting_.push_back(std::move(text));
}

void ws_messages::run(const std::shared_ptr<connection>& owner) {
  while (!waiting_.empty() && !reading_ && !dropped_) {
    std::string text = std::move(waiting_.front());
    waiting_.pop_front();
    bytes_ -= text.size();
    if (text.size() <= long_json) {
      // Short ones here: a hop to the worker would cost more than the parse.
      take_(read_ws_message(text, state_.routes.limits));
      continue;
    }
    reading_ = true;
    auto work = [this, text = std::move(text)] {
      // The connection may be over before the worker has its turn.
      return dropped_ ? std::nullopt : std::optional{read_ws_message(text, state_.routes.limits)};
    };
    run_on_worker(state_.json_worker, owner, std::move(work), [this](ws_message read) {
      // Back on the strand. What came meanwhile has waited, so the order holds.
      reading_ = false;
      if (!dropped_) take_(std::move(read));
      resumed_();
    });
  }
}

void ws_messages::drop() {
  dropped_ = true;
  waiting_.clear();
  bytes_ = 0;
}

bool ws_messages::full() const {
  // At least one message of the largest size may wait, whatever is being parsed.
  return bytes_ > state_.routes.config.max_message_bytes;
}

}  // namespace troupe::net
