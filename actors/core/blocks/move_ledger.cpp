#include "actors/core/blocks/move_ledger.hpp"

#include <algorithm>

#include "actors/core/state_hash.hpp"

namespace troupe::core {
namespace {

std::string named(const char* what, move_id move, lease_id lease) {
  return std::string(what) + " " + std::to_string(move.value) + " of lease " +
         std::to_string(lease.request.value) + "." + std::to_string(lease.epoch) + ": ";
}

move_start refusal_of(std::string violation) {
  return {move_outcome::failed, std::move(violation), {}, {}};
}

}  // namespace

// The stack hands out slot 0 first: the host memory behind a slot is touched when it is first used,
// so a tier that is never full costs only what it held at most.
move_ledger::move_ledger(std::uint32_t total_slots) : total_(total_slots), free_(total_slots) {
  for (host_slot i = 0; i < total_slots; ++i) free_[i] = total_slots - 1 - i;
}

// What a move out may be: the next chunk of its copy, without a gap and one at a time. Everything
// else is a bug of the scheduler, and is answered rather than carried out: a wrong copy would come
// back later as another request's cache.
std::string move_ledger::fault(const move_out& ask) const {
  if (!ask.move) return "it has no number";
  if (under_way(ask.move)) return "its number is under way";
  if (ask.blocks.empty()) return "it names no block";
  if (ask.blocks.size() > ask.total || ask.first > ask.total - ask.blocks.size())
    return "blocks " + std::to_string(ask.first) + " to " +
           std::to_string(ask.first + ask.blocks.size() - 1) + " are not among " +
           std::to_string(ask.total);
  const auto found = copies_.find(ask.lease);
  if (found == copies_.end())
    return ask.first == 0 ? "" : "it goes on with a copy that is not here";
  const copy& at = found->second;
  if (at.move) return "move " + std::to_string(at.move.value) + " is under way";
  if (ask.first != at.checksums.size())
    return "it begins at " + std::to_string(ask.first) + ", " +
           std::to_string(at.checksums.size()) + " are filled";
  if (ask.total != at.slots.size())
    return "its total is " + std::to_string(ask.total) + ", " + std::to_string(at.slots.size()) +
           " are reserved";
  return {};
}

std::string move_ledger::fault(const move_in& ask) const {
  if (!ask.move) return "it has no number";
  if (under_way(ask.move)) return "its number is under way";
  if (ask.blocks.empty()) return "it names no block";
  const auto found = copies_.find(ask.parked);
  if (found == copies_.end()) return {};  // a copy that is gone is no fault: begin_in() says failed
  const copy& at = found->second;
  if (at.move) return "move " + std::to_string(at.move.value) + " is under way";
  if (ask.blocks.size() > at.checksums.size() ||
      ask.first > at.checksums.size() - ask.blocks.size())
    return "blocks " + std::to_string(ask.first) + " to " +
           std::to_string(ask.first + ask.blocks.size() - 1) + " are asked for, " +
           std::to_string(at.checksums.size()) + " are filled";
  return {};
}

move_start move_ledger::start(copy& at, move_id move, bool out, std::uint32_t first,
                              std::size_t count) {
  at.move = move;
  at.out = out;
  at.first = first;
  at.count = static_cast<std::uint32_t>(count);
  move_start answer;
  answer.slots.assign(at.slots.begin() + at.first, at.slots.begin() + at.first + at.count);
  if (!out)
    answer.checksums.assign(at.checksums.begin() + at.first,
                            at.checksums.begin() + at.first + at.count);
  return answer;
}

move_start move_ledger::begin_out(const move_out& ask) {
  if (const auto why = fault(ask); !why.empty())
    return refusal_of(named("move out", ask.move, ask.lease) + why);
  auto found = copies_.find(ask.lease);
  if (found == copies_.end()) {
    // All or nothing, so that two copies can never each hold half of the tier and wait for the
    // rest.
    if (ask.total > free_.size()) return {move_outcome::host_full, {}, {}, {}};
    found = copies_.emplace(ask.lease, copy{}).first;
    found->second.slots.assign(free_.rbegin(), free_.rbegin() + ask.total);
    free_.resize(free_.size() - ask.total);
    reserved_total_ += ask.total;
  }
  return start(found->second, ask.move, true, ask.first, ask.blocks.size());
}

bool move_ledger::end_out(move_id move, bool ok, const std::vector<std::uint64_t>& checksums) {
  const auto found = find(move);
  if (found == copies_.end() || !found->second.out) {
    ++stale_ends_;
    return false;
  }
  copy& at = found->second;
  // Without a checksum for every block nothing could vouch for the copy when it comes back.
  if (!ok || checksums.size() != at.count || at.dropped) {
    free(found);
    return true;
  }
  at.checksums.insert(at.checksums.end(), checksums.begin(), checksums.end());
  at.move = {};
  return true;
}

move_start move_ledger::begin_in(const move_in& ask) {
  if (const auto why = fault(ask); !why.empty())
    return refusal_of(named("move in", ask.move, ask.parked) + why);
  const auto found = copies_.find(ask.parked);
  if (found == copies_.end()) return {move_outcome::failed, {}, {}, {}};
  return start(found->second, ask.move, false, ask.first, ask.blocks.size());
}

bool move_ledger::end_in(move_id move) {
  const auto found = find(move);
  if (found == copies_.end() || found->second.out) {
    ++stale_ends_;
    return false;
  }
  found->second.move = {};
  if (found->second.dropped) free(found);
  return true;
}

bool move_ledger::under_way(move_id move) const {
  return move && std::any_of(copies_.begin(), copies_.end(),
                             [&](const auto& entry) { return entry.second.move == move; });
}

std::uint32_t move_ledger::drop(lease_id lease) {
  const auto found = copies_.find(lease);
  if (found == copies_.end() || found->second.dropped) {
    ++unknown_drops_;
    return 0;
  }
  // While a move is in flight the copy thread still uses the slots: they are freed when it ends.
  if (found->second.move) {
    found->second.dropped = true;
    return 0;
  }
  const auto count = static_cast<std::uint32_t>(found->second.slots.size());
  free(found);
  return count;
}

std::uint32_t move_ledger::drop_unknown(const std::vector<lease_id>& parked) {
  std::uint32_t count = 0;
  for (auto it = copies_.begin(); it != copies_.end();) {
    if (it->second.move || std::binary_search(parked.begin(), parked.end(), it->first)) {
      ++it;
      continue;
    }
    count += static_cast<std::uint32_t>(it->second.slots.size());
    it = free(it);
  }
  return count;
}

move_ledger::copies::iterator move_ledger::find(move_id move) {
  if (!move) return copies_.end();
  return std::find_if(copies_.begin(), copies_.end(),
                      [&](const auto& entry) { return entry.second.move == move; });
}

move_ledger::copies::iterator move_ledger::free(copies::iterator at) {
  const auto& slots = at->second.slots;
  // Reversed, so that the next copy gets them in the same order: the memory used last, still
  // cached.
  free_.insert(free_.end(), slots.rbegin(), slots.rend());
  freed_total_ += slots.size();
  return copies_.erase(at);
}

move_counts move_ledger::counts() const {
  move_counts c;
  c.total = total_;
  for (const auto& [lease, at] : copies_) {
    c.used += static_cast<std::uint32_t>(at.slots.size());
    c.filled += static_cast<std::uint32_t>(at.checksums.size());
    c.moving += at.move ? 1 : 0;
  }
  c.copies = static_cast<std::uint32_t>(copies_.size());
  c.reserved_total = reserved_total_;
  c.freed_total = freed_total_;
  c.unknown_drops = unknown_drops_;
  c.stale_ends = stale_ends_;
  return c;
}

std::vector<move_ledger::census_line> move_ledger::census() const {
  std::vector<census_line> out;
  for (const auto& [lease, at] : copies_)
    out.push_back({lease, static_cast<std::uint32_t>(at.slots.size()),
                   static_cast<std::uint32_t>(at.checksums.size()), at.move ? at.count : 0, at.move,
                   at.out});
  return out;
}

std::string move_ledger::check() const {
  std::vector<bool> seen(total_, false);  // every slot is in exactly one list
  std::string broken;
  const auto visit = [&](const std::vector<host_slot>& slots, const char* where) {
    for (const host_slot s : slots) {
      if (!broken.empty()) return;
      if (s >= total_)
        broken = "slot " + std::to_string(s) + " in " + where + " is outside the host tier";
      else if (seen[s])
        broken = "slot " + std::to_string(s) + " in " + where + " has two places";
      else
        seen[s] = true;
    }
  };
  visit(free_, "free");
  for (const auto& [lease, at] : copies_) {
    visit(at.slots, "a copy");
    if (at.slots.empty()) return "a copy without slots is kept";
    if (at.checksums.size() > at.slots.size()) return "a copy has more blocks than slots";
    if (!at.move && at.checksums.empty()) return "a copy is empty and nothing fills it";
    if (!at.move && at.dropped) return "a dropped copy is kept";
    if (!at.move) continue;
    const auto limit = at.out ? at.slots.size() : at.checksums.size();
    if (at.count == 0 || at.first + std::size_t{at.count} > limit)
      return "a move names slots outside its copy";
    if (at.out && at.first != at.checksums.size()) return "a move out leaves a gap in its copy";
  }
  if (!broken.empty()) return broken;
  const auto c = counts();
  if (free_.size() + c.used != c.total) return "free + used != total on the host tier";
  if (c.reserved_total != c.freed_total + c.used)
    return "reserved != freed + used on the host tier";
  return {};
}

// All slots are equal: how many a copy has decides its future, not which.
void move_ledger::add_to(state_hash& h) const {
  h.add(total_).add(free_.size()).add(copies_.size());
  for (const auto& [lease, at] : copies_) {
    h.add(lease).add(at.slots.size()).add(at.checksums).add(at.move);
    h.add(at.out).add(at.first).add(at.count).add(at.dropped);
  }
}

}  // namespace troupe::core
