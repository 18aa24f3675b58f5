// Moves between the tiers: chunks out and in, and what follows from their end. A move that fails
// costs a recompute and nothing else: the prompt and the tokens are still known.
#include <algorithm>
#include <utility>

#include "actors/core/scheduler_machine.hpp"

namespace troupe::core {

namespace {

/// The chunk in flight is over. Does another one follow?
template <class Moving>
bool another_chunk_follows(Moving& s, move_outcome outcome) {
  s.way.done += s.way.chunk;
  return outcome == move_outcome::ok && s.way.done < s.copy.blocks;
}

}  // namespace

// Not while a move is abandoned: a mover that is stuck gets no more work. Not below one full block:
// recomputing that is faster than moving it. Not when the tokens of a row that was to be copied
// have to be computed again, and a window that had passed them would look at what went back.
bool scheduler_machine::worth_parking(const request& r) const {
  const auto& h = *r.held();
  for (std::uint32_t g = 0; g < h.trimmed.size(); ++g)
    if (h.trimmed[g] > limits_.rows_behind_window(g, h.computed)) return false;
  const bool stuck =
      std::any_of(moves_.begin(), moves_.end(), [](const auto& m) { return m.second.abandoned; });
  return limits_.park && !stuck && h.computed >= limits_.block_size;
}

void scheduler_machine::pin(request& r, transfer& way, const parked_copy& copy, bool out_of_device,
                            time_us now) {
  way.move = move_id{++moves_begun_};
  way.chunk = std::min(copy.blocks - way.done, std::max(limits_.move_chunk_blocks, 1u));
  const auto by = now + static_cast<time_us>(limits_.move_limit_us);
  moves_[way.move] = {r.id, *r.lease(), copy.lease, out_of_device, false, way.chunk, now, by};
  next_check_ = std::min(next_check_, by);
}

void scheduler_machine::next_chunk_out(request& r, time_us now, effects& out) {
  auto& s = std::get<life::moving_out>(r.state);
  pin(r, s.way, s.copy, true, now);
  const auto blocks = blocks_to_copy(s.kept, s.copy.computed);
  const auto first = blocks.begin() + s.way.done;
  out.emplace_back(
      move_out{s.way.move, s.copy.lease, s.way.done, s.copy.blocks, {first, first + s.way.chunk}});
}

void scheduler_machine::next_chunk_in(request& r, time_us now, effects& out) {
  auto& s = std::get<life::moving_in>(r.state);
  pin(r, s.way, s.copy, false, now);
  const auto blocks = blocks_to_copy(s.kept, s.copy.computed);
  const auto first = blocks.begin() + s.way.done;
  out.emplace_back(move_in{s.way.move, s.copy.lease, s.way.done, {first, first + s.way.chunk}});
}

void scheduler_machine::on(const moved& m, time_us now, effects& out) {
  const auto found = moves_.find(m.move);
  if (found == moves_.end()) {
    ++ignored_;  // unknown, or reported twice
    advance(now, out);
    return;
  }
  const auto move = found->second;
  moves_.erase(found);
  if (move.abandoned) {  // only now does nothing read or write its blocks any more
    give_back(move.lease, end_reason::cancelled, true, false, out);
    out.emplace_back(drop_parked{move.copy});
    advance(now, out);
    return;
  }
  auto& r = requests_.at(move.request);
  if (const auto* e = std::get_if<life::retiring>(&r.state)) {
    finish(r, verdict{e->end}, e->phase, now, out);
  } else if (move.out) {
    moved_out(r, m.outcome, now, out);
  } else {
    moved_in(r, m.outcome, now, out);
  }
  advance(now, out);
}

void scheduler_machine::moved_out(request& r, move_outcome outcome, time_us now, effects& out) {
  auto& s = std::get<life::moving_out>(r.state);
  if (another_chunk_follows(s, outcome)) return next_chunk_out(r, now, out);
  const bool ok = outcome == move_outcome::ok;
  const auto copy = s.copy;
  give_back(copy.lease, end_reason::cancelled, true, false, out);
  if (!ok) out.emplace_back(drop_parked{copy.lease});
  back_to_queue(r, ok ? std::optional(copy) : std::nullopt);
}

void scheduler_machine::moved_in(request& r, move_outcome outcome, time_us now, effects& out) {
  auto& s = std::get<life::moving_in>(r.state);
  if (another_chunk_follows(s, outcome)) return next_chunk_in(r, now, out);
  const bool ok = outcome == move_outcome::ok;
  out.emplace_back(drop_parked{s.copy.lease});
  auto held = std::move(s.kept);
  if (!ok && !held.trimmed.empty()) {  // it cannot be computed again without those rows
    give_back(held.lease, end_reason::cancelled, true, false, out);
    back_to_queue(r, std::nullopt);
    return;
  }
  held.computed = ok ? s.copy.computed : 0;  // the lease stays: recomputed in its blocks
  if (held.computed + 1 == r.size() && r.completion() > 0) {
    r.state = life::decoding{std::move(held)};
  } else {
    r.state = life::prefilling{std::move(held)};
  }
  publish_computed(r, out);
}

// The request goes on without its lease and its copy, which stay pinned until the mover reports the
// end: a copy that hangs may still write at any time.
void scheduler_machine::abandon(move_id id, time_us now, effects& out) {
  auto& move = moves_.at(id);
  move.abandoned = true;
  out.emplace_back(
      move_abandoned{move.out, move.blocks, static_cast<std::uint64_t>(now - move.began)});
  auto& r = requests_.at(move.request);
  const auto* e = std::get_if<life::retiring>(&r.state);
  const auto ending = e ? std::optional(*e) : std::nullopt;
  back_to_queue(r, std::nullopt);  // the lease belongs to the move now
  if (ending) finish(r, ending->end, ending->phase, now, out);
}

}  // namespace troupe::core
