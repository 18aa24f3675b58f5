// The world's part in forks: the allocator's answers, blocks that are kept for a copy, and the
// copies that a step makes before it computes.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/actors/core/scheduler_world.hpp"

namespace troupe::core::testing {

namespace {

void must(bool ok, const char* rule, request_id id) {
  if (!ok) FAIL(rule << " request " << id.value);
}

}  // namespace

void scheduler_world::allocate(const fork_lease& ask) {
  const bool forced = deny_fork && deny_fork(ask);
  if (auto got = forced ? std::nullopt : ledger.fork(ask)) {
    ++forks;
    blocks_[ask.child] = got->blocks;
    if (!got->sources.empty()) sources_[ask.child] = got->sources;
    from_allocator_.emplace_back(granted{ask.child, got->blocks, got->cached, got->sources});
  } else {
    leases_[ask.child].denied = 1;
    from_allocator_.emplace_back(denied{ask.child});
  }
}

bool scheduler_world::keeps(request_id id, const std::vector<block_id>& row) const {
  return std::any_of(sources_.begin(), sources_.end(),
                     [&](const auto& x) { return x.first.request == id && x.second == row; });
}

void scheduler_world::copy_blocks() {
  const auto bs = limits_.block_size;
  for (const auto& item : plan_->items) {
    if (item.copy_from.empty()) continue;
    must(item.copy_from.size() == limits_.groups() && keeps(item.request, item.copy_from),
         "what is copied is kept:", item.request);
    for (std::uint32_t g = 0; g < limits_.groups(); ++g)
      std::copy_n(memory_.begin() + item.copy_from[g] * bs, bs,
                  memory_.begin() + item.blocks[item.start / bs * limits_.groups() + g] * bs);
    ++copies;
  }
}

}  // namespace troupe::core::testing
