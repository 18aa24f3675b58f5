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
      take_(read_ws_message(text, state_.routes.limits));
      continue;
    }
    reading_ = true;
    auto work = [this, text = std::move(text)] {
      return dropped_ ? std::nullopt : std::optional{read_ws_message(text, state_.routes.limits)};
    };
    run_on_worker(state_.json_worker, owner, std::move(work), [this](ws_message read) {
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
  return bytes_ > state_.routes.config.max_message_bytes;
}

}  // namespace troupe::net
