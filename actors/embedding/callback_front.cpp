#include "actors/embedding/callback_front.hpp"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <thread>
#include <variant>

#include "actors/embedding/front_sink.hpp"

namespace troupe {

/// Bounded: of each request at most one delta and one end are queued.
struct callback_front::state {
  explicit state(core::generation_engine& asked) : engine(asked) {}

  struct event {
    std::shared_ptr<sink> to;
    std::variant<core::generation_delta, core::generation_end> what;
  };
  void push(event one) {
    const std::lock_guard lock(mutex);
    queue.push_back(std::move(one));
    changed.notify_all();
  }
  void run();

  core::generation_engine& engine;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<event> queue;
  std::set<std::shared_ptr<sink>> running;
  bool closing = false;
  std::thread thread;
};

struct callback_front::sink final : front_sink, std::enable_shared_from_this<sink> {
  sink(state& front, delta_call delta_function, end_call end_function)
      : owner(front), on_delta(std::move(delta_function)), on_end(std::move(end_function)) {}

  void accepted(std::uint32_t) override {}
  void delta(core::generation_delta piece) override {
    owner.push({shared_from_this(), std::move(piece)});
  }
  void end(core::generation_end last) override {
    owner.push({shared_from_this(), std::move(last)});
  }

  // On the front's thread:
  void call(const core::generation_delta& piece) {
    if (thrown.empty() && on_delta) try {
        on_delta(piece);
      } catch (const std::exception& e) {
        thrown = std::string("on_delta has thrown: ") + e.what();
      } catch (...) {
        thrown = "on_delta has thrown";
      }
    thrown.empty() ? acknowledge() : cancel(core::end_reason::cancelled, owner.engine.now());
  }
  void call(core::generation_end& last) {
    if (!last.last.text.empty() || !last.last.tokens.empty()) call(std::as_const(last.last));
    last.last = {};
    if (!thrown.empty()) {
      last.reason = core::end_reason::cancelled;
      last.message = thrown;
    }
    if (on_end) try {
        on_end(last);
      } catch (...) {
        // The request is over, and nobody is left to tell.
      }
  }

  state& owner;
  delta_call on_delta;
  end_call on_end;
  std::string thrown;
};

void callback_front::state::run() {
  for (;;) {
    event one;
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [this] { return !queue.empty() || (closing && running.empty()); });
      if (queue.empty()) return;
      one = std::move(queue.front());
      queue.pop_front();
    }
    std::visit([&](auto& what) { one.to->call(what); }, one.what);
    if (std::holds_alternative<core::generation_end>(one.what)) {
      const std::lock_guard lock(mutex);
      running.erase(one.to);
    }
  }
}

callback_front::callback_front(core::generation_engine& engine)
    : state_(std::make_unique<state>(engine)) {
  state_->thread = std::thread([x = state_.get()] { x->run(); });
}

callback_front::~callback_front() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->closing = true;
    const auto now = state_->engine.now();
    for (const auto& one : state_->running) one->cancel(core::end_reason::client_gone, now);
    state_->changed.notify_all();
  }
  state_->thread.join();
}

std::shared_ptr<core::generation> callback_front::submit(core::generation_request request,
                                                         delta_call on_delta, end_call on_end) {
  const auto made = std::make_shared<sink>(*state_, std::move(on_delta), std::move(on_end));
  {
    const std::lock_guard lock(state_->mutex);
    state_->running.insert(made);
  }
  auto handle = state_->engine.submit(std::move(request), made);
  made->attach(handle);
  return handle;
}

}  // namespace troupe
