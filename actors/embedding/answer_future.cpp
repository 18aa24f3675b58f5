#include "actors/embedding/answer_future.hpp"

#include "actors/embedding/client_sink.hpp"

namespace troupe {

struct answer_future::state final : client_sink {
  explicit state(core::generation_engine& served) : engine(&served) {}

  void accepted(std::uint32_t) override {}
  void delta(core::generation_delta piece) override {
    add(piece);
    acknowledge();
  }
  void end(core::generation_end last) override {
    add(last.last);
    whole.end = std::move(last);
    std::shared_ptr<state> kept;  // of a detached future the last owner: it goes after set_value()
    {
      const std::lock_guard lock(mutex);
      over = true;
      kept = std::move(self);
    }
    promise.set_value(std::move(whole));
  }
  /// The engine holds its sinks weakly, so a detached one owns itself until its end.
  void keep_until_end(std::shared_ptr<state> me) {
    const std::lock_guard lock(mutex);
    if (!over) self = std::move(me);
  }
  /// No lock: the events of one request come one after another, and `whole` is read only after the
  /// promise was kept.
  void add(core::generation_delta& piece) {
    (piece.prompt ? whole.echoed : whole.text) += piece.text;
    for (auto& token : piece.tokens) whole.tokens.push_back(std::move(token));
  }

  core::generation_engine* engine;
  answer whole;
  std::promise<answer> promise;
  std::shared_ptr<core::generation> handle;
  std::mutex mutex;
  bool over = false;
  std::shared_ptr<state> self;  // set by detach() only
};

answer_future ask(core::generation_engine& engine, core::generation_request request) {
  answer_future out;
  out.state_ = std::make_shared<answer_future::state>(engine);
  out.ready_ = out.state_->promise.get_future();
  out.state_->handle = engine.submit(std::move(request), out.state_);
  out.state_->attach(out.state_->handle);
  return out;
}

answer_future& answer_future::operator=(answer_future&& other) noexcept {
  leave();
  state_ = std::move(other.state_);
  ready_ = std::move(other.ready_);
  return *this;
}

answer_future::~answer_future() {
  leave();
}

// The explicit cancel carries the time at which the client left; dropping the sink alone would have
// the session find out, a moment later.
void answer_future::leave() {
  if (!state_ || !ready_.valid()) return;
  if (ready_.wait_for(std::chrono::seconds(0)) != std::future_status::ready)
    state_->handle->cancel(core::end_reason::client_gone, state_->engine->now());
  state_.reset();
}

answer answer_future::get() {
  auto out = ready_.get();
  state_.reset();
  return out;
}

void answer_future::cancel() {
  if (state_) state_->handle->cancel(core::end_reason::cancelled, state_->engine->now());
}

core::request_id answer_future::id() const {
  return state_ ? state_->handle->id() : core::request_id{};
}

std::future<answer> answer_future::detach() && {
  const auto mine = std::move(state_);
  mine->keep_until_end(mine);
  return std::move(ready_);
}

}  // namespace troupe
