#include "actors/allocator_actor.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <memory>

#include "actors/core/block_ledger.hpp"
#include "actors/fail_stop.hpp"

namespace troupe {
namespace {

struct allocator {
  core::block_ledger ledger;
  std::uint64_t leaked = 0;
  core::observer* watcher;

  core::pool_record record() const {
    const auto counts = ledger.counts();
    core::pool_record out;
    out.total = counts.total;
    out.used = counts.leased;
    out.cached = counts.cached;
    out.quarantined = counts.quarantined;
    out.allocated_total = counts.allocated_total;
    out.leaked = leaked;
    return out;
  }

  void verify() const {
    if (const auto broken = ledger.check(); !broken.empty()) report_violation(*watcher, broken);
  }
};

}  // namespace

protocol::allocator_actor::behavior_type allocator_actor(protocol::allocator_actor::pointer self,
                                                         std::uint32_t total_blocks,
                                                         const protocol::scheduler_actor& scheduler,
                                                         core::observer* watcher) {
  fail_stop(self, *watcher, "allocator");
  auto state = std::make_shared<allocator>(allocator{core::block_ledger(total_blocks), 0, watcher});
  watcher->on_pool(state->record());
  return {
      [=](const core::reserve& ask) {
        if (auto blocks = state->ledger.reserve(ask.lease, ask.count, ask.keep_free)) {
          state->watcher->on_pool(state->record());
          self->send(scheduler, core::granted{ask.lease, std::move(*blocks)});
        } else {
          self->send(scheduler, core::denied{ask.lease});
        }
      },
      [=](const core::release& ask) {
        const auto blocks = state->ledger.release(ask.lease);
        if (blocks > 0) state->watcher->on_released(ask.why, ask.preempted, blocks, state->record());
        state->verify();
        self->send(scheduler, core::released{ask.lease, blocks});
      },
      [=](const core::audit& census) {
        if (const auto lost = state->ledger.quarantine_unknown(census.live); lost > 0) {
          state->leaked += lost;
          report_violation(*state->watcher,
                           std::to_string(lost) + " blocks were leased to nobody the scheduler knows");
        }
        state->watcher->on_pool(state->record());
        state->verify();
      },
  };
}

}  // namespace troupe
