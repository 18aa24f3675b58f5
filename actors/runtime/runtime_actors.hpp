// The actors of one runtime inside a CAF system that may be somebody else's: spawned hidden, so
// that the system never waits for them, counted until each is gone, ended together. Owned by the
// runtime. When the system shuts down first, it ends them from the thread that does so and touches
// nothing of the system afterwards. Decides nothing about requests.
#pragma once
#include <caf/actor_cast.hpp>
#include <caf/actor_system.hpp>
#include <caf/attachable.hpp>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <system_error>
#include <unordered_map>
#include <utility>

namespace troupe {

class runtime_actors {
 public:
  /// `on_system_end` is called once, before the first exit message, when the system shuts down
  /// while this lives.
  runtime_actors(caf::actor_system& system, std::function<void()> on_system_end);
  ~runtime_actors();
  runtime_actors(const runtime_actors&) = delete;
  runtime_actors& operator=(const runtime_actors&) = delete;

  /// A null handle when the system has shut down, or after end_all(). Throws thread_error when the
  /// thread of a detached actor is refused.
  template <caf::spawn_options Options = caf::no_spawn_options, class Run, class... Args>
  auto spawn(Run run, Args&&... args) {
    using handle = decltype(system_.spawn<Options + caf::hidden>(run, std::forward<Args>(args)...));
    handle born;
    {
      const std::lock_guard lock(shared_->mutex);
      if (shared_->closed) return born;
      try {
        born = system_.spawn<Options + caf::hidden>(run, std::forward<Args>(args)...);
      } catch (const std::system_error& e) {
        thread_refused(e);
      }
      shared_->alive.emplace(born.id(), caf::actor_cast<caf::weak_actor_ptr>(born));
    }
    forget_when_gone(caf::actor_cast<caf::strong_actor_ptr>(born));
    return born;
  }

  /// Runs `what`, which may send to our actors, unless the system is gone; it can't go meanwhile.
  template <class What>
  void while_open(What&& what) const {
    const std::lock_guard lock(shared_->mutex);
    if (!shared_->system_gone) what();
  }

  bool system_gone() const;
  /// Refuses new actors, ends all but `last`, waits until they are gone, then ends `last`. Not from
  /// an actor's thread.
  void end_all(const caf::strong_actor_ptr& last);

 private:
  struct shared {
    mutable std::mutex mutex;
    std::condition_variable changed;
    bool closed = false, system_gone = false;
    std::unordered_map<caf::actor_id, caf::weak_actor_ptr> alive;
    std::function<void()> on_system_end;
    /// Called with the mutex held. What is returned must be dropped without it.
    std::vector<caf::strong_actor_ptr> send_exits(const caf::strong_actor_ptr& but) const;
  };
  struct system_watch;

  [[noreturn]] void thread_refused(const std::system_error&);
  void forget_when_gone(const caf::strong_actor_ptr& actor);

  caf::actor_system& system_;
  std::shared_ptr<shared> shared_;
  caf::weak_actor_ptr spawn_server_;
};

}  // namespace troupe
