#include "actors/runtime/runtime_actors.hpp"

#include <caf/abstract_actor.hpp>
#include <caf/actor.hpp>
#include <caf/error.hpp>
#include <caf/exit_reason.hpp>
#include <caf/send.hpp>
#include <string>

#include "config/threads/joined_thread.hpp"
#include "config/threads/thread_limits.hpp"

namespace troupe {

/// CAF 0.17 has no hook for "the system is about to end". This is attached to the system's own
/// spawn server, which the system's destructor ends before it stops its threads: while
/// actor_exited() runs, messages can still be sent, and each is handled or cleaned up before the
/// system is gone.
struct runtime_actors::system_watch final : caf::attachable {
  static constexpr std::size_t token_type = 0x7472;

  explicit system_watch(std::shared_ptr<shared> owner) : owner_(std::move(owner)) {}

  void actor_exited(const caf::error&, caf::execution_unit*) override {
    std::vector<caf::strong_actor_ptr> ended;
    const std::lock_guard lock(owner_->mutex);
    owner_->closed = owner_->system_gone = true;
    if (owner_->on_system_end) owner_->on_system_end();
    ended = owner_->send_exits(nullptr);
  }
  bool matches(const token& what) override {
    return what.subtype == token_type && what.ptr == owner_.get();
  }

 private:
  std::shared_ptr<shared> owner_;
};

std::vector<caf::strong_actor_ptr> runtime_actors::shared::send_exits(
    const caf::strong_actor_ptr& except) const {
  std::vector<caf::strong_actor_ptr> sent;
  for (const auto& [id, weak] : alive)
    if (auto actor = weak.lock(); actor && actor != except) {
      caf::anon_send_exit(actor, caf::exit_reason::user_shutdown);
      sent.push_back(std::move(actor));
    }
  return sent;
}

runtime_actors::runtime_actors(caf::actor_system& system, std::function<void()> on_system_end)
    : system_(system), shared_(std::make_shared<shared>()) {
  shared_->on_system_end = std::move(on_system_end);
  const auto& server = system.spawn_serv();
  spawn_server_ = caf::actor_cast<caf::weak_actor_ptr>(server);
  caf::actor_cast<caf::abstract_actor*>(server)->attach(std::make_unique<system_watch>(shared_));
}

runtime_actors::~runtime_actors() {
  end_all(nullptr);
  if (const auto server = spawn_server_.lock())
    caf::actor_cast<caf::abstract_actor*>(server)->detach(
        {system_watch::token_type, shared_.get()});
  const std::lock_guard lock(shared_->mutex);
  shared_->on_system_end = nullptr;
}

/// CAF 0.17 counts the thread of a detached actor before it makes it, and its system's destructor
/// waits for that count: a thread that was never made has to be counted off. The actor itself,
/// to which there is no other handle, is lost.
void runtime_actors::thread_refused(const std::system_error& e) {
  system_.dec_detached_threads();
  throw thread_error(std::string("the thread of an actor cannot be started: ") + e.what() + " (" +
                     thread_limits() + ")");
}

void runtime_actors::forget_when_gone(const caf::strong_actor_ptr& actor) {
  caf::actor_cast<caf::abstract_actor*>(actor)->attach_functor(
      [shared = shared_, id = actor->id()] {
        caf::weak_actor_ptr gone;  // declared before the lock, so dropped after it
        const std::lock_guard lock(shared->mutex);
        if (const auto found = shared->alive.find(id); found != shared->alive.end()) {
          gone = std::move(found->second);
          shared->alive.erase(found);
        }
        shared->changed.notify_all();
      });
}

bool runtime_actors::system_gone() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->system_gone;
}

void runtime_actors::end_all(const caf::strong_actor_ptr& last) {
  const auto end = [this](const caf::strong_actor_ptr& except) {
    std::vector<caf::strong_actor_ptr> ended;  // declared before the lock, so dropped after it
    std::unique_lock lock(shared_->mutex);
    shared_->closed = true;
    if (shared_->system_gone) return;
    ended = shared_->send_exits(except);
    const std::size_t left = except && shared_->alive.contains(except->id()) ? 1 : 0;
    shared_->changed.wait(lock,
                          [&] { return shared_->system_gone || shared_->alive.size() <= left; });
  };
  if (last) end(last);
  end(nullptr);
}

}  // namespace troupe
