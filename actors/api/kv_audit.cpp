#include "actors/api/kv_audit.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace troupe::core {

std::string name_of(lease_id lease) {
  return std::to_string(lease.request.value) + "." + std::to_string(lease.epoch);
}

std::uint32_t moving_blocks(const kv_mover_part& mover) {
  std::uint32_t sum = 0;
  for (const auto& copy : mover.copies) sum += copy.moving;
  return sum;
}

namespace {

struct problem_finder {
  const kv_report& report;
  std::vector<std::string> found{};
  std::map<lease_id, std::set<block_id>> leases{};  // as the allocator has them
  std::map<lease_id, const parked_census_line*> copies{};

  void note(std::string what) { found.push_back(std::move(what)); }

  /// What each owner's own check found. First, because the other comparisons only repeat it.
  void owners() {
    if (!report.scheduler.broken.empty()) note("scheduler: " + report.scheduler.broken);
    if (!report.allocator.broken.empty()) note("allocator: " + report.allocator.broken);
    if (!report.mover.broken.empty()) note("mover: " + report.mover.broken);
  }

  /// free + leased + cached + quarantined = total, from the counts and from the blocks one by one.
  void conservation() {
    const auto& c = report.allocator.counts;
    if (std::uint64_t{c.free} + c.leased + c.cached + c.quarantined != c.total)
      note("free " + std::to_string(c.free) + " + leased " + std::to_string(c.leased) +
           " + cached " + std::to_string(c.cached) + " + quarantined " +
           std::to_string(c.quarantined) + " is not the total, " + std::to_string(c.total));
    std::uint32_t seen[4] = {};
    for (const auto& line : report.allocator.blocks) ++seen[static_cast<std::size_t>(line.where)];
    const std::uint32_t counted[4] = {c.free, c.leased, c.cached, c.quarantined};
    if (!std::equal(seen, seen + 4, counted))
      note("the allocator's counts differ from its blocks counted one by one");
    if (moving_blocks(report.mover) > c.leased) note("more blocks are being moved than are leased");
  }

  /// Every lease of the allocator is one that the scheduler knows, or holds for a move: else it
  /// leaked.
  void allocator_leases() {
    for (std::size_t b = 0; b < report.allocator.blocks.size(); ++b)
      for (const auto lease : report.allocator.blocks[b].holders)
        leases[lease].insert(static_cast<block_id>(b));
    std::set<lease_id> live;
    for (const auto& r : report.scheduler.requests)
      if (r.lease) live.insert(*r.lease);
    for (const auto& m : report.scheduler.moves) live.insert(m.lease);
    for (const auto& [lease, blocks] : leases)
      if (!live.contains(lease))
        note("lease " + name_of(lease) + " holds " + std::to_string(blocks.size()) +
             " blocks for the allocator and is unknown to the scheduler");
  }

  /// Every block the scheduler would name in a plan belongs to that lease. While a reserve is in
  /// flight the allocator may be ahead.
  void scheduler_leases() {
    for (const auto& r : report.scheduler.requests) {
      if (!r.lease || !r.blocks) continue;
      const auto& there = leases[*r.lease];
      const bool all = std::all_of(r.blocks->begin(), r.blocks->end(),
                                   [&](auto b) { return there.contains(b); });
      if (!all || there.size() < r.blocks->size() || there.size() > r.blocks->size() + r.asking)
        note("lease " + name_of(*r.lease) + " has " + std::to_string(r.blocks->size()) +
             " blocks for the scheduler and " + std::to_string(there.size()) +
             (all ? "" : " different ones") + " for the allocator");
    }
  }

  /// Only a lease that still has to copy a block keeps it.
  void copy_sources() {
    std::map<lease_id, std::set<block_id>> kept;
    for (std::size_t b = 0; b < report.allocator.blocks.size(); ++b)
      for (const auto lease : report.allocator.blocks[b].copied_by)
        kept[lease].insert(static_cast<block_id>(b));
    for (const auto& r : report.scheduler.requests) {
      if (!r.lease) continue;
      for (const auto source : r.sources)
        if (!kept[*r.lease].contains(source))
          note("lease " + name_of(*r.lease) + " is to copy block " + std::to_string(source) +
               ", which the allocator does not keep for it");
    }
  }

  /// Every copy and every move of the mover is one that the scheduler knows.
  void mover_copies() {
    std::set<lease_id> known;
    for (const auto& r : report.scheduler.requests)
      if (r.copy) known.insert(*r.copy);
    for (const auto& m : report.scheduler.moves) known.insert(m.copy);
    for (const auto& copy : report.mover.copies) {
      copies[copy.lease] = &copy;
      if (!known.contains(copy.lease))
        note("copy " + name_of(copy.lease) + " has " + std::to_string(copy.slots) +
             " slots of the host tier and is unknown to the scheduler");
      if (copy.move &&
          std::none_of(report.scheduler.moves.begin(), report.scheduler.moves.end(),
                       [&](const auto& m) { return m.move == copy.move && m.out == copy.out; }))
        note("move " + std::to_string(copy.move.value) +
             " is in flight and is unknown to the scheduler");
    }
    const auto& c = report.mover.counts;
    std::uint64_t used = 0;
    for (const auto& copy : report.mover.copies) used += copy.slots;
    if (used != c.used || report.mover.copies.size() != c.copies)
      note("the mover's counts differ from its copies counted one by one");
  }

  /// Every copy that the scheduler relies on is there as a whole. One that is being written is not
  /// compared: the mover is ahead of the scheduler until its answer arrives.
  void scheduler_copies() {
    for (const auto& r : report.scheduler.requests) {
      if (!r.copy || !r.copy_whole) continue;
      const auto there = copies.find(*r.copy);
      const std::uint32_t filled = there == copies.end() ? 0 : there->second->filled;
      if (filled != r.copy_blocks)
        note("copy " + name_of(*r.copy) + " has " + std::to_string(r.copy_blocks) +
             " blocks for the scheduler and " + std::to_string(filled) + " for the mover");
    }
  }
};

}  // namespace

std::vector<std::string> find_problems(const kv_report& report) {
  problem_finder finder{report};
  finder.owners();
  finder.conservation();
  finder.allocator_leases();
  finder.scheduler_leases();
  finder.copy_sources();
  finder.mover_copies();
  finder.scheduler_copies();
  return std::move(finder.found);
}

}  // namespace troupe::core
