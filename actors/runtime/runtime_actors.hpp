// The actors of one runtime, in a CAF system that may belong to a host program. They are spawned
// hidden (a system waits for its visible actors before it ends, so ours could keep a host from
// ending), counted until each is gone, and ended together. Owned by the runtime. When the system
// shuts down first, they are ended from the thread that shuts it down, and nothing of the system is
// touched afterwards. Decides nothing about requests.
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
      // Under the lock, so that no actor is born between the last exit message and the wait for
      // all.
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

  /// Runs `what`, which may send to the runtime's actors, unless the system is gone. The system
  /// cannot end while it runs.
  template <class What>
  void while_open(What&& what) const {
    const std::lock_guard lock(shared_->mutex);
    if (!shared_->system_gone) what();
  }

  bool system_gone() const;
  /// Refuses new actors, ends all but `last`, waits until they are gone, then ends `last`. Not from
  /// an actor's thread: it would wait for itself.
  void end_all(const caf::strong_actor_ptr& last);

 private:
  struct shared {
    mutable std::mutex mutex;
    std::condition_variable changed;
    bool closed = false, system_gone = false;
    std::unordered_map<caf::actor_id, caf::weak_actor_ptr> alive;
    std::function<void()> on_system_end;
    /// Called with the mutex held. The result must be dropped without it: the last handle of an
    /// actor runs that actor's cleanup, which takes the mutex.
    std::vector<caf::strong_actor_ptr> send_exits(const caf::strong_actor_ptr& except) const;
  };
  struct system_watch;

  [[noreturn]] void thread_refused(const std::system_error&);
  void forget_when_gone(const caf::strong_actor_ptr& actor);

  caf::actor_system& system_;
  std::shared_ptr<shared> shared_;
  caf::weak_actor_ptr spawn_server_;
};

}  // namespace troupe
