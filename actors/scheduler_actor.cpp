#include "actors/scheduler_actor.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <chrono>
#include <utility>

#include "actors/clock.hpp"
#include "actors/fail_stop.hpp"
#include "actors/scheduler/lease_watch.hpp"
#include "actors/scheduler/served_sessions.hpp"

namespace troupe {
namespace {

constexpr std::chrono::milliseconds tick_interval{20};

struct scheduler {
  scheduler(protocol::scheduler_actor::pointer actor, const core::scheduler_limits& limits,
            std::shared_ptr<scheduler_gauges> shared, core::observer* observer)
      : self(actor),
        machine(limits),
        gauges(std::move(shared)),
        watcher(observer),
        sessions(actor),
        leases(*observer) {}

  protocol::scheduler_actor::pointer self;
  core::scheduler_machine machine;
  std::shared_ptr<scheduler_gauges> gauges;
  core::observer* watcher;
  protocol::scheduler_neighbours neighbours;
  served_sessions sessions;
  lease_watch leases;
  core::effects out;
  bool ticking = false;

  core::time_us now() const { return to_time_us(self->clock().now()); }

  template <class Event>
  void apply(const Event& event) {
    const auto at = now();
    if constexpr (std::is_same_v<Event, core::step_done>) gauges->progress_at = at;
    leases.note(event, at);
    out.clear();
    machine.on(event, at, out);
    for (auto& effect : out)
      std::visit(
          [this, at](auto& x) {
            this->leases.note(x, at);  // "this->": clang finds no use of it otherwise
            this->perform(x);
          },
          effect);
    // A request that waits for its reader is no work: health must not report it as stuck.
    const bool busy = !machine.at_rest();
    if (busy && !gauges->busy) gauges->progress_at = at;
    gauges->busy = busy;
    if (gauges->running != machine.running() || gauges->waiting != machine.waiting()) {
      gauges->running = machine.running();
      gauges->waiting = machine.waiting();
      watcher->on_load(machine.running(), machine.waiting());
    }
    if (!machine.idle() && !ticking) {
      ticking = true;
      self->delayed_send(self, tick_interval, core::tick{});
    }
  }

  void report(const protocol::kv_inquiry& ask) {
    auto part = machine.view(now());
    for (auto& request : part.requests) request.events = leases.events_of(request.id);
    ask.answer(std::move(part));
    self->send(neighbours.allocator, ask);
    if (neighbours.mover)
      self->send(neighbours.mover, ask);
    else
      ask.answer(core::kv_mover_part{});
  }

  void on_leaked(const protocol::leaked& found) {
    const auto what = leases.on_leaked(found);
    apply(core::lost{found.blocks});
    report_violation(*watcher, what);
  }

  template <class Message>
  void to_session(core::request_id request, Message& message) {
    if (const auto* found = sessions.find(request)) self->send(found->session, std::move(message));
  }

  void perform(core::admitted& x) { to_session(x.request, x); }
  void perform(core::refused& x) {
    const auto request = x.request;
    to_session(request, x);
    sessions.forget(request);
  }
  void perform(core::tokens_out& x) {
    if (auto* const found = sessions.find(x.request); found && x.token) {
      const auto at = now();
      if (found->last_token_at != 0)
        watcher->on_inter_token(static_cast<double>(at - found->last_token_at) * 1e-6);
      found->last_token_at = at;
    }
    to_session(x.request, x);
  }
  void perform(core::ended& x) {
    const auto request = x.request;
    to_session(request, x);
    sessions.forget(request);
  }
  void perform(core::reserve& x) { self->send(neighbours.allocator, x); }
  void perform(core::fork_lease& x) { self->send(neighbours.allocator, x); }
  void perform(core::drop_source& x) { self->send(neighbours.allocator, x); }
  void perform(core::trim& x) { self->send(neighbours.allocator, x); }
  void perform(core::publish& x) { self->send(neighbours.allocator, std::move(x)); }
  /// Release latency counts from when the cause was seen, so a preempted request, which lives on,
  /// has none.
  void perform(core::release& x) {
    if (const auto* found = sessions.find(x.lease.request);
        !x.preempted && found && found->cancel_seen_at)
      leases.await_release(x.lease, *found->cancel_seen_at);
    self->send(neighbours.allocator, x);
  }
  void perform(core::audit& x) {
    if (neighbours.mover) self->send(neighbours.mover, x);
    self->send(neighbours.allocator, std::move(x));
  }
  void perform(core::move_out& x) { self->send(neighbours.mover, std::move(x)); }
  void perform(core::move_in& x) { self->send(neighbours.mover, std::move(x)); }
  void perform(core::drop_parked& x) {
    if (neighbours.mover) self->send(neighbours.mover, x);
  }
  void perform(core::preempted& x) { watcher->on_preemption(x.parked); }
  void perform(core::move_abandoned& x) {
    watcher->on_move({x.out, core::move_outcome::late, x.blocks, x.elapsed_us});
  }
  void perform(core::step_plan& x) {
    for (const auto& item : x.items) {
      tell_started(item.request);
      for (const auto& tail : item.tails) tell_started(tail.request);
    }
    self->send(neighbours.executor, std::move(x));
  }
  void perform(core::stopped&) { gauges->set_over(gauges->stopped); }
  void perform(core::violation& x) { report_violation(*watcher, x.invariant); }

  void tell_started(core::request_id request) {
    auto* const found = sessions.find(request);
    if (found && !std::exchange(found->started, true))
      self->send(found->session, protocol::started{request});
  }

  void open(const core::submit& request, const protocol::session_actor& session) {
    sessions.add(request.request, session);
    for (const auto& tail : request.tails) sessions.add(tail.request, session);
    apply(request);
  }

  void close(const core::cancel& event) {
    if (auto* const found = sessions.find(event.request); found && !found->cancel_seen_at)
      found->cancel_seen_at = event.seen_at;
    apply(event);
  }

  void on_released(const core::released& event) {
    leases.confirm_release(event, now());
    apply(event);
  }

  void on_down(const caf::down_msg& down) {
    if (down.source == neighbours.allocator.address() ||
        down.source == neighbours.executor.address() ||
        (neighbours.mover && down.source == neighbours.mover.address())) {
      // The sessions monitor this actor: each ends its request as engine_failed. The runtime
      // reports the failure once.
      self->quit(caf::make_error(caf::sec::runtime_error, "a neighbour of the scheduler died"));
      return;
    }
    for (const auto request : sessions.choices_of(down.source))
      close(core::cancel{request, core::end_reason::session_crash, now()});
  }
};

}  // namespace

protocol::scheduler_actor::behavior_type scheduler_actor(
    protocol::scheduler_actor::pointer self, const core::scheduler_limits& limits,
    const std::shared_ptr<scheduler_gauges>& gauges, core::observer* watcher) {
  fail_stop(self, *watcher, "scheduler");
  auto state = std::make_shared<scheduler>(self, limits, gauges, watcher);
  self->set_down_handler([state](const caf::down_msg& down) { state->on_down(down); });
  // A handle of the executor or mover kept in this actor after its death would keep their threads.
  self->attach_functor([state] { state->neighbours = {}; });
  return {
      [=](const protocol::scheduler_neighbours& neighbours) {
        state->neighbours = neighbours;
        self->monitor(neighbours.allocator);
        self->monitor(neighbours.executor);
        if (neighbours.mover) self->monitor(neighbours.mover);
      },
      [=](const core::submit& request, const protocol::session_actor& session) {
        state->open(request, session);
      },
      [=](const core::cancel& event) { state->close(event); },
      [=](const core::reader_stalled& event) { state->apply(event); },
      [=](const core::reader_resumed& event) { state->apply(event); },
      [=](const core::granted& event) { state->apply(event); },
      [=](const core::denied& event) { state->apply(event); },
      [=](const core::released& event) { state->on_released(event); },
      [=](const core::moved& event) { state->apply(event); },
      [=](const protocol::leaked& found) { state->on_leaked(found); },
      [=](const core::step_done& event) { state->apply(event); },
      [=](const core::step_failed& event) { state->apply(event); },
      [=](const core::tick& event) {
        state->ticking = false;
        state->apply(event);
      },
      [=](const core::drain& event) {
        state->gauges->draining = true;
        state->apply(event);
      },
      [=](const core::stop& event) {
        state->gauges->draining = true;
        state->apply(event);
      },
      [=](const protocol::kv_inquiry& ask) { state->report(ask); },
  };
}

}  // namespace troupe
