// The scheduler's part of an audit report.
#include <algorithm>
#include <iterator>

#include "actors/api/kv_audit.hpp"
#include "actors/core/scheduler_machine.hpp"

namespace troupe::core {
namespace {

void see_blocks(const holding& held, std::uint32_t groups, kv_request_view& view) {
  view.blocks.emplace();
  std::copy_if(held.blocks.begin(), held.blocks.end(), std::back_inserter(*view.blocks),
               [](block_id b) { return b != no_block; });
  view.computed = held.computed;
  if (held.grow == holding::growth::asked) view.asking = groups;
  view.sources = held.sources;
}

/// The blocks and the copy that a state holds.
void see(const life_state& state, std::uint32_t groups, kv_request_view& view) {
  const auto see_copy = [&](const parked_copy& copy, bool whole) {
    view.copy_blocks = copy.blocks;
    view.copy_whole = whole;
  };
  if (const auto* out = std::get_if<life::moving_out>(&state)) {
    see_blocks(out->kept, groups, view);
    see_copy(out->copy, false);
  } else if (const auto* in = std::get_if<life::moving_in>(&state)) {
    see_blocks(in->kept, groups, view);
    see_copy(in->copy, true);
  } else if (const auto* parked = std::get_if<life::parked>(&state)) {
    see_copy(parked->copy, true);
  } else if (const auto* asked = std::get_if<life::awaiting_grant>(&state)) {
    if (asked->copy) see_copy(*asked->copy, true);
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
    if (const auto* h = r.held()) see_blocks(*h, limits_.groups(), view);
    see(r.state, limits_.groups(), view);
    part.requests.push_back(std::move(view));
  }
  if (in_flight_) part.step = kv_step_view{in_flight_->step, in_flight_->items};
  for (const auto& [id, m] : moves_)
    part.moves.push_back(
        {id, m.request, m.lease, m.copy, m.out, m.abandoned, m.blocks, now - m.began});
  return part;
}

}  // namespace troupe::core
