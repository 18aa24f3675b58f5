#include "actors/embedding/callback_client.hpp"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <variant>

#include "actors/embedding/client_sink.hpp"
#include "config/threads/joined_thread.hpp"

namespace troupe {

/// The queue is bounded by the number of requests: of each one, at most one delta and one end wait.
struct callback_client::state {
  explicit state(core::generation_engine& served) : engine(served) {}

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
  // The engine keeps only a weak reference to a sink, and a sink that goes is a client that left:
  // each is held here until its end was handled.
  std::set<std::shared_ptr<sink>> running;
  bool closing = false;
  joined_thread thread;
};

struct callback_client::sink final : client_sink, std::enable_shared_from_this<sink> {
  sink(state& client, delta_call delta_function, end_call end_function)
      : owner(client), on_delta(std::move(delta_function)), on_end(std::move(end_function)) {}

  void accepted(std::uint32_t) override {}
  void delta(core::generation_delta piece) override {
    owner.push({shared_from_this(), std::move(piece)});
  }
  void end(core::generation_end last) override {
    owner.push({shared_from_this(), std::move(last)});
  }

  // Both run on the callbacks' thread. After a throw no more text is shown, and no acknowledgement
  // is sent: the cancel ends the request.
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
        // The request is over and its last callback failed: there is no one left to report to.
      }
  }

  state& owner;
  delta_call on_delta;
  end_call on_end;
  std::string thrown;
};

void callback_client::state::run() {
  for (;;) {
    event one;
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [this] { return !queue.empty() || (closing && running.empty()); });
      if (queue.empty()) return;
      one = std::move(queue.front());
      queue.pop_front();
    }
    // Without the lock: a callback may submit, and may take as long as it likes.
    std::visit([&](auto& what) { one.to->call(what); }, one.what);
    if (std::holds_alternative<core::generation_end>(one.what)) {
      const std::lock_guard lock(mutex);
      running.erase(one.to);
    }
  }
}

callback_client::callback_client(core::generation_engine& engine)
    : state_(std::make_unique<state>(engine)) {
  state_->thread = joined_thread("troupe.callback", [x = state_.get()] { x->run(); });
}

callback_client::~callback_client() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->closing = true;
    const auto now = state_->engine.now();
    for (const auto& one : state_->running) one->cancel(core::end_reason::client_gone, now);
    state_->changed.notify_all();
  }
  state_->thread.join();
}

std::shared_ptr<core::generation> callback_client::submit(core::generation_request request,
                                                          delta_call on_delta, end_call on_end) {
  const auto made = std::make_shared<sink>(*state_, std::move(on_delta), std::move(on_end));
  {  // before submit(): the end may come before it returns
    const std::lock_guard lock(state_->mutex);
    state_->running.insert(made);
  }
  auto handle = state_->engine.submit(std::move(request), made);
  made->attach(handle);
  return handle;
}

}  // namespace troupe
