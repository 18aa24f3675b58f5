// One directed path between two actors of a run: messages wait here in order until the run chooses
// to deliver the oldest. So when a handler sends to two actors, either may get its message first,
// as on real threads. An edge stands for its target: an actor that monitors it gets the down
// message on the edge back, behind everything the target had sent before it died. Owned by the
// world; decides nothing, and drops nothing before cut().
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

/// Sender and receiver.
enum class edge_kind : std::uint8_t {
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
  edge(caf::actor_config& config, edge_kind kind, std::uint32_t session, tap* watch);

  edge_kind kind() const { return kind_; }
  std::uint32_t session() const { return session_; }  ///< index; edges of sessions only

  void connect(caf::strong_actor_ptr target, edge* back);
  /// For an edge from a session: the handle that its submit carries instead of the session's own,
  /// so that the scheduler's answers travel on an edge too.
  void present_session_as(protocol::session_actor handle) { session_handle_ = std::move(handle); }
  void target_died(const caf::error& why);
  /// Drops the waiting messages and every handle: the end of a run.
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
  struct waiting_message {
    std::uint64_t number;
    caf::mailbox_element_ptr what;
  };
  void send_down(const caf::error& why);

  edge_kind kind_;
  std::uint32_t session_;
  tap* tap_;
  caf::strong_actor_ptr target_;
  protocol::session_actor session_handle_;
  edge* back_ = nullptr;
  std::deque<waiting_message> waiting_;
  bool monitored_ = false, dead_ = false;
  caf::error why_dead_;
};

}  // namespace troupe::sim
