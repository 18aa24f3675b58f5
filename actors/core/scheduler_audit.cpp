// The scheduler's part of an audit report.
#include "actors/api/kv_audit.hpp"
#include "actors/core/scheduler_machine.hpp"

namespace troupe::core {
namespace {

/// The blocks and the copy that a state holds.
void see(const life_state& state, kv_request_view& view) {
  const auto see_copy = [&](const parked_copy& copy, bool whole) {
    view.copy_blocks = copy.blocks;
    view.copy_whole = whole;
  };
  const auto see_blocks = [&](const holding& held) {
    view.blocks.emplace(held.blocks.begin(), held.blocks.end());
    view.computed = held.computed;
    view.asking = held.grow == holding::growth::asked;
  };
  if (const auto* out = std::get_if<life::moving_out>(&state)) {
    see_blocks(out->kept);
    see_copy(out->copy, false);
  } else if (const auto* in = std::get_if<life::moving_in>(&state)) {
    see_blocks(in->kept);
    see_copy(in->copy, true);
  } else if (const auto* parked = std::get_if<life::parked>(&state)) {
    see_copy(parked->copy, true);
  } else if (const auto* asked = std::get_if<life::awaiting_grant>(&state)) {
    view.asking = true;
    if (asked->copy) see_copy(*asked->copy, true);
  } else if (std::holds_alternative<life::forking>(state)) {
    view.asking = true;
  } else if (const auto* waits = std::get_if<life::awaiting_fork>(&state)) {
    view.leader = waits->leader;
  }
}

}  // namespace

kv_scheduler_part scheduler_machine::view(time_us now) const {
  kv_scheduler_part part;
  part.at = now;
  part.ignored_events = ignored_;
  part.broken = check();
  for (const auto& [id, r] : requests_) {
    kv_request_view view;
    view.id = id;
    view.state = name_of(core::state_of(r));
    view.lease = r.lease();
    view.copy = r.copy();
    if (const auto* h = r.held()) {
      view.blocks.emplace(h->blocks.begin(), h->blocks.end());
      view.computed = h->computed;
      view.asking = h->grow == holding::growth::asked;
      view.source = h->source;
    }
    see(r.state, view);
    part.requests.push_back(std::move(view));
  }
  if (in_flight_) part.step = kv_step_view{in_flight_->step, in_flight_->items};
  for (const auto& [id, m] : moves_)
    part.moves.push_back(
        {id, m.request, m.lease, m.copy, m.out, m.abandoned, m.blocks, now - m.began});
  return part;
}

}  // namespace troupe::core
