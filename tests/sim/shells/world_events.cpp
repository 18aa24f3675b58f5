// The disturbances of a run, and what must hold at its end.
#include <algorithm>

#include "actors/api/kv_audit.hpp"
#include "tests/sim/shells/world.hpp"

namespace troupe::sim {
namespace {

constexpr faults of_a_client = bit(fault::left_silently) | bit(fault::left) | bit(fault::cancel) |
                               bit(fault::crash) | bit(fault::reader_stops);
constexpr faults of_a_copy = bit(fault::copy_fails) | bit(fault::copy_corrupted);
constexpr std::chrono::seconds long_time{10};

}  // namespace

void world::collect_disturbances() {
  for (unsigned f = 0; f < static_cast<unsigned>(fault::count); ++f) {
    const auto kind = static_cast<fault>(f);
    if (!(of_.allowed & bit(kind))) continue;
    if (of_a_client & bit(kind)) {
      for (std::uint32_t i = 0; i < clients_.size(); ++i)
        if (available(kind, clients_[i])) offer(kind, i);
    } else if (available(kind, client{})) {
      offer(kind);
    }
  }
}

void world::offer(fault f, std::uint32_t index) {
  options_.push_back({action::disturb, f, index, 0});
}

bool world::available(fault f, const client& of) const {
  switch (f) {
    case fault::left_silently:
    case fault::left:
      return of.alive && of.sink;
    case fault::cancel:
      return of.alive && of.cancels < 2;
    case fault::crash:
      return of.alive;
    case fault::reader_stops:
      return of.alive && of.sink && of.sink->reads() && !of.sink->ended();
    case fault::step_fails:
      return !device_->fail_next_plan && !device_->fail_next_run;
    case fault::copy_fails:
    case fault::copy_corrupted:
      return !copy_numbers_.empty();
    case fault::copy_refused:
      return !device_->refuse_next_copy;
    case fault::time_passes:
    case fault::deadline:
      return coordinator_.has_pending_timeout();
    case fault::drain:
      return !draining_ && !stopped_;
    case fault::stop:
      return !stopped_;
    default:
      return true;
  }
}

void world::disturb(fault f, std::uint32_t index) {
  if (of_a_client & bit(f)) return disturb_client(f, index);
  note(std::string("*** ") + name_of(f));
  if (of_a_copy & bit(f)) {
    referee_.copy_ends();
    copy_numbers_.erase(copy_numbers_.begin());
    return device_->end_copy(f == fault::copy_fails ? device::copy_end::failed
                                                    : device::copy_end::corrupted);
  }
  for (auto& one : clients_) one.met |= bit(f);
  switch (f) {
    case fault::unknown_cancel:
      return send(*runtime_,
                  core::cancel{core::request_id{99}, core::end_reason::cancelled, now()});
    case fault::step_fails:
      (choices_.taken().size() % 2 == 0 ? device_->fail_next_plan : device_->fail_next_run) = true;
      return;
    case fault::copy_refused:
      device_->refuse_next_copy = true;
      return;
    case fault::drain:
      draining_ = true;
      return send(*runtime_, core::drain{});
    case fault::stop:
      stopped_ = true;
      return send(*runtime_, core::stop{core::end_reason::shutdown, "stopped by the run"});
    default:
      break;
  }
  time_moves();
  if (f == fault::deadline)
    coordinator_.advance_time(long_time);
  else
    coordinator_.trigger_timeout();
}

void world::disturb_client(fault f, std::uint32_t index) {
  auto& one = clients_[index];
  one.met |= bit(f);
  note("*** session " + std::to_string(index + 1) + ": " + name_of(f));
  const core::request_id id{index + 1};
  switch (f) {
    case fault::left_silently:
    case fault::left:
      one.sink->check_text();
      one.sink = nullptr;
      if (f == fault::left)
        send(*one.from_client, core::cancel{id, core::end_reason::client_gone, now()});
      return;
    case fault::cancel:
      ++one.cancels;
      return send(*one.from_client, core::cancel{id, core::end_reason::cancelled, now()});
    case fault::reader_stops:
      return one.sink->stop_reading();
    default:
      caf::anon_send_exit(caf::actor_cast<caf::actor>(one.session), caf::exit_reason::kill);
  }
}

// ---- the end

void world::wind_up() {
  if (!stopped_) send(*runtime_, core::stop{core::end_reason::shutdown, "the run is over"});
  drain_edges();
  if (!gauges_->stopped)
    referee_.complain("every request has ended and the scheduler does not report that it stopped");
  core::kv_report report;
  int parts = 0;
  send(*runtime_, protocol::kv_inquiry{[&](core::kv_part part) {
    ++parts;
    if (auto* s = std::get_if<core::kv_scheduler_part>(&part)) report.scheduler = std::move(*s);
    if (auto* a = std::get_if<core::kv_allocator_part>(&part)) report.allocator = std::move(*a);
    if (auto* m = std::get_if<core::kv_mover_part>(&part)) report.mover = std::move(*m);
  }});
  drain_edges();
  if (parts != 3)
    referee_.complain("an audit was answered " + std::to_string(parts) + " times instead of 3");
  for (const auto& problem : core::find_problems(report)) referee_.complain("audit: " + problem);
  if (!report.scheduler.requests.empty()) referee_.complain("the scheduler still knows a request");
  referee_.at_rest();
  check_ends();
  check_released();
}

/// Sessions are released: only this run still has a handle or an address of one. (An actor whose
/// handle is kept never gives its memory back.)
void world::check_released() {
  for (std::size_t i = 0; i < clients_.size(); ++i) {
    const auto name = "session " + std::to_string(i + 1);
    const auto* edge_to = clients_[i].to->ctrl();
    if (edge_to->strong_refs > 2)  // two are ours: edge_handles_ and the edge back
      referee_.complain("a handle of " + name + " is still kept");
    if (edge_to->weak_refs > 1) referee_.complain("the address of " + name + " is still kept");
    const auto* session = caf::actor_cast<caf::strong_actor_ptr>(clients_[i].session).get();
    if (session->strong_refs > 3)  // three are ours: client::session and the edges to it
      referee_.complain("the actor of " + name + " is still kept");
  }
}

/// Delivers everything in the order it was sent, without choices.
void world::drain_edges() {
  for (;;) {
    options_.clear();
    collect_steady();
    if (options_.empty() || !referee_.broken().empty()) return;
    perform(options_.front());
  }
}

void world::check_ends() {
  for (std::uint32_t i = 0; i < clients_.size(); ++i) {
    const auto& one = clients_[i];
    const auto name = "client " + std::to_string(i + 1);
    if (*one.phase != core::life_phase::done)
      referee_.complain(name + "'s handle does not say done at rest");
    if (referee_.ends_recorded(i) != 1) referee_.complain(name + "'s end was not recorded");
    if (!one.sink) continue;
    if (!one.sink->ended())
      referee_.complain(name + " never got its end");
    else if (!has_cause(one, *one.sink->ended()))
      referee_.complain(name + " ended for " + name_of(one.sink->ended()->reason) +
                        ", which nothing in this run caused");
  }
}

/// Was this end caused by the request itself, or by a disturbance of this client or of all?
bool world::has_cause(const client& of, const core::generation_end& end) const {
  const auto met = [&](fault f) { return (of.met & bit(f)) != 0; };
  switch (end.reason) {
    case core::end_reason::length:
      return of.wants->stop.empty();
    case core::end_reason::stop_string:
      return !of.wants->stop.empty();
    case core::end_reason::cancelled:
      return met(fault::cancel);
    case core::end_reason::session_crash:
      return met(fault::crash);
    case core::end_reason::step_failed:
      return met(fault::step_fails);
    case core::end_reason::shutdown:
      return met(fault::stop);
    case core::end_reason::slow_reader:
      return of_.outbound_bytes_max <
             1000;  // a larger limit is never reached; see check_slow_reader
    case core::end_reason::queue_timeout:
    case core::end_reason::first_token_timeout:
    case core::end_reason::total_timeout:
      return of.wants->deadlines != core::deadlines_ms{};
    case core::end_reason::refused:
      return ((end.why_refused == core::refusal::draining) &&
              (met(fault::drain) || met(fault::stop))) ||
             end.why_refused == core::refusal::queue_full;
    default:
      return false;
  }
}

}  // namespace troupe::sim
