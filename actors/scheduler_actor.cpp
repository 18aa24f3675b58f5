#include "actors/scheduler_actor.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <chrono>
#include <map>
#include <unordered_map>

#include "actors/clock.hpp"
#include "actors/core/blocks/lease_history.hpp"
#include "actors/fail_stop.hpp"

namespace troupe {

void scheduler_gauges::set_over(std::atomic<bool>& flag) {
  std::function<void()> call;
  {
    const std::lock_guard lock(over_mutex_);
    flag = true;
    call = on_over_;
  }
  over_changed_.notify_all();
  if (call) call();
}

bool scheduler_gauges::wait_over(std::chrono::milliseconds at_most) {
  std::unique_lock lock(over_mutex_);
  return over_changed_.wait_for(lock, at_most, [this] { return stopped || failed; });
}

void scheduler_gauges::on_over(std::function<void()> call) {
  bool over = false;
  {
    const std::lock_guard lock(over_mutex_);
    on_over_ = call;
    over = stopped || failed;
  }
  if (over && call) call();
}
namespace {

constexpr std::chrono::milliseconds tick_interval{20};

struct scheduler {
  scheduler(protocol::scheduler_actor::pointer actor, const core::scheduler_limits& limits,
            std::shared_ptr<scheduler_gauges> shared, core::observer* observer)
      : self(actor), machine(limits), gauges(std::move(shared)), watcher(observer) {}

  struct client {
    protocol::session_actor session;
    std::optional<core::time_us> cancel_seen_at;
    core::time_us last_token_at = 0;
    bool started = false;
  };

  protocol::scheduler_actor::pointer self;
  core::scheduler_machine machine;
  std::shared_ptr<scheduler_gauges> gauges;
  core::observer* watcher;
  protocol::scheduler_neighbours neighbours;
  std::unordered_map<core::request_id, client> clients;
  std::map<caf::actor_addr, std::vector<core::request_id>> by_address;  // a session's choices
  std::unordered_map<core::lease_id, core::time_us>
      awaited;  // leases whose release is in flight, and when its cause was seen
  core::lease_history history;
  core::effects out;
  bool ticking = false;

  core::time_us now() const { return to_time_us(self->clock().now()); }

  template <class Event>
  void apply(const Event& event) {
    const auto at = now();
    if constexpr (std::is_same_v<Event, core::step_done>) gauges->progress_at = at;
    remember(event, at);
    out.clear();
    machine.on(event, at, out);
    for (auto& effect : out)
      std::visit(
          [this, at](auto& x) {
            this->remember(x, at);  // said out loud: clang finds no use of it in a generic lambda
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

  // The events that a lease's history keeps; all others are ignored.
  template <class Any>
  void remember(const Any&, core::time_us) {}
  void remember(const core::cancel& x, core::time_us at) { history.note(x.request, "cancel", at); }
  void remember(const core::reader_stalled& x, core::time_us at) {
    history.note(x.request, "reader_stalled", at);
  }
  void remember(const core::reader_resumed& x, core::time_us at) {
    history.note(x.request, "reader_resumed", at);
  }
  void remember(const core::granted& x, core::time_us at) { history.note(x.lease, "granted", at); }
  void remember(const core::denied& x, core::time_us at) { history.note(x.lease, "denied", at); }
  void remember(const core::released& x, core::time_us at) {
    history.note(x.lease, "released", at);
  }
  void remember(const core::admitted& x, core::time_us at) { history.begin(x.request, at); }
  void remember(const core::reserve& x, core::time_us at) { history.note(x.lease, "reserve", at); }
  void remember(const core::fork_lease& x, core::time_us at) {
    history.note(x.child, "fork_lease", at);
  }
  void remember(const core::drop_source& x, core::time_us at) {
    history.note(x.lease, "drop_source", at);
  }
  void remember(const core::release& x, core::time_us at) { history.note(x.lease, "release", at); }
  void remember(const core::move_out& x, core::time_us at) {
    history.note(x.lease, "move_out", at);
  }
  void remember(const core::move_in& x, core::time_us at) { history.note(x.parked, "move_in", at); }
  void remember(const core::drop_parked& x, core::time_us at) {
    history.note(x.parked, "drop_parked", at);
  }
  void remember(const core::preempted& x, core::time_us at) {
    history.note(x.request, "preempted", at);
  }
  void remember(const core::step_plan& x, core::time_us at) {
    for (const auto& item : x.items) history.note(item.request, "step_plan", at);
  }
  void remember(const core::ended& x, core::time_us at) { history.end(x.request, at); }

  void report(const protocol::kv_inquiry& ask) {
    auto part = machine.view(now());
    for (auto& request : part.requests) request.events = history.of(request.id);
    ask.answer(std::move(part));
    self->send(neighbours.allocator, ask);
    if (neighbours.mover)
      self->send(neighbours.mover, ask);
    else
      ask.answer(core::kv_mover_part{});
  }

  /// The report names each lease with its last events: what is needed to find the bug that leaked
  /// it.
  void on_leaked(const protocol::leaked& found) {
    auto what = std::to_string(found.blocks) + " blocks leaked, quarantined; no live request owns";
    for (const auto lease : found.leases) {
      what += " lease " + core::name_of(lease) + " (" + history.words(lease.request) + ")";
      awaited.erase(lease);
    }
    apply(core::lost{found.blocks});
    report_violation(*watcher, what);
  }

  template <class Message>
  void to_session(core::request_id request, Message& message) {
    if (const auto found = clients.find(request); found != clients.end())
      self->send(found->second.session, std::move(message));
  }

  /// A session is monitored and its address kept until its last choice has ended: either would keep
  /// the memory of a dead actor for as long as the scheduler lives.
  void forget(core::request_id request) {
    const auto found = clients.find(request);
    if (found == clients.end()) return;
    const auto address = found->second.session.address();
    clients.erase(found);
    const auto others = by_address.find(address);
    if (others == by_address.end()) return;
    std::erase(others->second, request);
    if (!others->second.empty()) return;
    self->demonitor(address);
    by_address.erase(others);
  }

  void perform(core::admitted& x) { to_session(x.request, x); }
  void perform(core::refused& x) {
    const auto request = x.request;
    to_session(request, x);
    forget(request);
  }
  void perform(core::tokens_out& x) {
    if (const auto found = clients.find(x.request); found != clients.end() && x.token) {
      const auto at = now();
      if (found->second.last_token_at != 0)
        watcher->on_inter_token(static_cast<double>(at - found->second.last_token_at) * 1e-6);
      found->second.last_token_at = at;
    }
    to_session(x.request, x);
  }
  void perform(core::ended& x) {
    const auto request = x.request;
    to_session(request, x);
    forget(request);
  }
  void perform(core::reserve& x) { self->send(neighbours.allocator, x); }
  void perform(core::fork_lease& x) { self->send(neighbours.allocator, x); }
  void perform(core::drop_source& x) { self->send(neighbours.allocator, x); }
  void perform(core::publish& x) { self->send(neighbours.allocator, std::move(x)); }
  /// Release latency counts from when the cause was seen, so a preempted request, which lives on,
  /// has none.
  void perform(core::release& x) {
    if (const auto found = clients.find(x.lease.request);
        !x.preempted && found != clients.end() && found->second.cancel_seen_at) {
      awaited[x.lease] = *found->second.cancel_seen_at;
    }
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
    const auto found = clients.find(request);
    if (found == clients.end() || std::exchange(found->second.started, true)) return;
    self->send(found->second.session, protocol::started{request});
  }

  void open(const core::submit& request, const protocol::session_actor& session) {
    auto& choices = by_address[session.address()];
    if (choices.empty()) self->monitor(session);
    const auto add = [&](core::request_id id) {
      clients[id] = client{session, {}, 0, false};
      choices.push_back(id);
    };
    add(request.request);
    for (const auto& tail : request.tails) add(tail.request);
    apply(request);
  }

  void close(const core::cancel& event) {
    if (const auto found = clients.find(event.request);
        found != clients.end() && !found->second.cancel_seen_at)
      found->second.cancel_seen_at = event.seen_at;
    apply(event);
  }

  /// Not before the allocator has confirmed: only then are the blocks really free.
  void on_released(const core::released& event) {
    if (const auto found = awaited.find(event.lease);
        found != awaited.end() && !event.source_only) {
      watcher->on_release_latency(static_cast<double>(now() - found->second) * 1e-6);
      awaited.erase(found);
    }
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
    const auto found = by_address.find(down.source);
    if (found == by_address.end()) return;
    const auto choices = found->second;  // each is forgotten as it ends
    for (const auto request : choices)
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
