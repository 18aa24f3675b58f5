#include "actors/runtime/session_start.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/clock.hpp"

namespace troupe {
namespace {

/// Keeps the first time only: several events may report the same client as gone.
void note(std::atomic<core::time_us>& time, core::time_us seen) {
  core::time_us none = 0;
  time.compare_exchange_strong(none, seen);
}

/// The caller's handle of one session.
class session_handle final : public core::generation {
 public:
  session_handle(core::request_id id, protocol::session_actor session, shared_phase phase,
                 shared_time left_at)
      : id_(id),
        session_(std::move(session)),
        phase_(std::move(phase)),
        left_at_(std::move(left_at)) {}
  core::request_id id() const override { return id_; }
  core::life_phase phase() const override { return *phase_; }
  void delivered() override { caf::anon_send(session_, protocol::delivered{id_}); }
  void cancel(core::end_reason why, core::time_us seen_at) override {
    note(*left_at_, seen_at);
    caf::anon_send(session_, core::cancel{id_, why, seen_at});
  }

 private:
  core::request_id id_;
  protocol::session_actor session_;
  shared_phase phase_;
  shared_time left_at_;
};

/// Handle of a request that came after the runtime had ended: it ended before it began.
class ended_handle final : public core::generation {
 public:
  explicit ended_handle(core::request_id id) : id_(id) {}
  core::request_id id() const override { return id_; }
  core::life_phase phase() const override { return core::life_phase::done; }
  void delivered() override {}
  void cancel(core::end_reason, core::time_us) override {}

 private:
  core::request_id id_;
};

}  // namespace

std::vector<std::shared_ptr<core::generation>> start_session(
    runtime_actors& actors, const session_context& context,
    const std::vector<choice_client>& clients) {
  std::vector<std::shared_ptr<core::generation>> handles;
  handles.reserve(clients.size());
  const auto session = actors.spawn(session_actor, context, clients);
  if (session) caf::anon_send(session, protocol::begin{});
  for (const auto& client : clients) {
    const auto sink = client.sink.lock();
    if (!session) {
      core::generation_end end;
      end.reason = core::end_reason::shutdown;
      end.message = "the runtime is shutting down";
      if (sink) sink->end(std::move(end));
      handles.push_back(std::make_shared<ended_handle>(client.id));
      continue;
    }
    // Weak: a client may keep its sink long after the end, and must not keep the session.
    if (sink)
      sink->when_dropped([id = client.id, left_at = client.left_at,
                          weak = caf::actor_cast<caf::weak_actor_ptr>(session)] {
        const auto seen = to_time_us(std::chrono::steady_clock::now());
        note(*left_at, seen);
        if (const auto alive = weak.lock())
          caf::anon_send(caf::actor_cast<protocol::session_actor>(alive),
                         core::cancel{id, core::end_reason::client_gone, seen});
      });
    handles.push_back(
        std::make_shared<session_handle>(client.id, session, client.phase, client.left_at));
  }
  return handles;
}

}  // namespace troupe
