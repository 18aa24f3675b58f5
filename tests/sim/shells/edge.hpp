// One directed way between two actors of a run: messages wait here in order until the run chooses
// to deliver the oldest. So a handler that sends to two actors says nothing about which of them is
// first, as on real threads. Stands for its target: who monitors the edge learns of the target's
// death by a message on the way back, behind what the target had sent before. Owned by the world;
// decides nothing, drops nothing of its own.
#pragma once
#include <caf/actor.hpp>
#include <caf/actor_cast.hpp>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/attachable.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/mailbox_element.hpp>
#include <caf/monitorable_actor.hpp>
#include <caf/send.hpp>
#include <caf/typed_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <deque>
#include <string>

#include "actors/protocol/scheduler.hpp"

namespace troupe::sim {

/// What kind of way: who speaks to whom.
enum class way : std::uint8_t {
  to_session,    ///< scheduler -> session
  from_session,  ///< session -> scheduler
  client,        ///< client or runtime -> session
  to_allocator,  ///< scheduler -> allocator
  from_allocator,
  to_executor,
  from_executor,
  to_mover,
  from_mover,
  from_runtime,  ///< runtime -> scheduler
};

class edge;

/// Sees every message twice: when it is sent and when it is about to be handled.
class tap {
 public:
  virtual ~tap() = default;
  virtual std::uint64_t sent(const edge& on,
                             const caf::type_erased_tuple& what) = 0;  ///< its number, counted up
};

class edge final : public caf::monitorable_actor {
 public:
  edge(caf::actor_config& config, way kind, std::uint32_t session, tap* watch);

  way kind() const { return kind_; }
  std::uint32_t session() const { return session_; }  ///< index, for the ways from and to sessions

  void connect(caf::strong_actor_ptr target, edge* back);
  /// On the way from a session: what the scheduler gets to know as the session.
  void present_as(protocol::session_actor door) { door_ = std::move(door); }
  void target_died(const caf::error& why);
  /// Drops what is under way and every handle: the end of a run.
  void cut();

  bool empty() const { return waiting_.empty(); }
  std::uint64_t oldest() const { return waiting_.front().number; }
  const caf::type_erased_tuple& head() const { return waiting_.front().what->content(); }
  /// Hands the oldest message to the target's mailbox.
  void deliver();

  using caf::abstract_actor::enqueue;
  void enqueue(caf::mailbox_element_ptr what, caf::execution_unit*) override;
  void attach(caf::attachable_ptr ptr) override;
  std::size_t detach(const caf::attachable::token& what) override;
  const char* name() const override { return "edge"; }

 private:
  struct parcel {
    std::uint64_t number;
    caf::mailbox_element_ptr what;
  };
  void tell_down(const caf::error& why);

  way kind_;
  std::uint32_t session_;
  tap* tap_;
  caf::strong_actor_ptr target_;
  protocol::session_actor door_;
  edge* back_ = nullptr;
  std::deque<parcel> waiting_;
  bool monitored_ = false, dead_ = false;
  caf::error why_dead_;
};

}  // namespace troupe::sim
