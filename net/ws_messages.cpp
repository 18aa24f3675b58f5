#include "net/ws_messages.hpp"

#include <boost/asio/post.hpp>

#include <utility>

namespace troupe::net {

namespace asio = boost::asio;

ws_messages::ws_messages(server_state& state, std::function<void(ws_message)> take, std::function<void()> resumed)
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
    asio::post(state_.readers, [this, owner, text = std::move(text)] {
      if (dropped_) return;
      asio::post(owner->executor(), [this, owner, read = read_ws_message(text, state_.routes.limits)]() mutable {
        reading_ = false;
        if (!dropped_) take_(std::move(read));
        resumed_();
      });
    });
  }
}

void ws_messages::drop() {
  dropped_ = true;
  waiting_.clear();
  bytes_ = 0;
}

bool ws_messages::full() const { return bytes_ > state_.routes.config.max_message_bytes; }

}  // namespace troupe::net
