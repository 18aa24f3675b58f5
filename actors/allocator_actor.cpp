#include "actors/allocator_actor.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <memory>
#include <optional>

#include "actors/core/blocks/block_ledger.hpp"
#include "actors/fail_stop.hpp"

namespace troupe {
namespace {

/// The full check takes about a millisecond on a large pool: cheap at this interval, too much for
/// every release.
constexpr std::uint64_t releases_per_check = 64;

struct allocator {
  core::block_ledger ledger;
  std::uint32_t forget_release;  // counts down to the release that is dropped; 0: none
  std::uint64_t leaked = 0;      // blocks, over all audits
  core::observer* watcher;
  std::uint64_t releases = 0;

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

  bool is_planted_leak(const core::release& ask) {
    return forget_release > 0 && ledger.held_by(ask.lease) > 0 && --forget_release == 0;
  }

  void audit(const core::audit& census, protocol::leaked& found) {
    found.leases = ledger.unknown(census.live);
    found.blocks = ledger.quarantine_unknown(census.live);
    leaked += found.blocks;
    watcher->on_pool(record());
  }

  core::kv_allocator_part report() const {
    return {ledger.counts(), ledger.census(), leaked, ledger.check()};
  }

  /// Invariant 1 (free + leased + cached + quarantined = total), from the counts after every
  /// release and from the whole structure now and then.
  void verify_release() {
    if (++releases % releases_per_check == 0) return verify();
    if (!ledger.conserved())
      report_violation(*watcher, "free + leased + cached + quarantined != total");
  }
  void verify() const {
    if (const auto broken = ledger.check(); !broken.empty()) report_violation(*watcher, broken);
  }
};

}  // namespace

protocol::allocator_actor::behavior_type allocator_actor(protocol::allocator_actor::pointer self,
                                                         const core::ledger_options& options,
                                                         std::uint32_t forget_release,
                                                         const protocol::scheduler_actor& scheduler,
                                                         core::observer* watcher) {
  fail_stop(self, *watcher, "allocator");
  auto state = std::make_shared<allocator>(
      allocator{core::block_ledger(options), forget_release, 0, watcher});
  watcher->on_pool(state->record());
  // Of a lease that goes on. None: it did not hold them.
  const auto part_back = [=](core::lease_id lease, std::optional<std::uint32_t> usable,
                             const char* broken) {
    if (!usable) report_violation(*state->watcher, broken);
    if (usable.value_or(0) == 0) return;
    state->watcher->on_pool(state->record());
    self->send(scheduler, core::released{lease, *usable, true});
  };
  return {
      [=](const core::reserve& ask) {
        if (auto given = state->ledger.reserve(ask)) {
          if (ask.prefix && !ask.prefix->tokens.empty())
            state->watcher->on_prefix(static_cast<std::uint32_t>(ask.prefix->tokens.size()),
                                      given->cached * options.block_size);
          state->watcher->on_pool(state->record());
          self->send(scheduler, core::granted{ask.lease, std::move(given->blocks), given->cached});
        } else {
          self->send(scheduler, core::denied{ask.lease});
        }
      },
      [=](const core::fork_lease& ask) {
        if (auto given = state->ledger.fork(ask)) {
          state->watcher->on_pool(state->record());
          self->send(scheduler, core::granted{ask.child, std::move(given->blocks), given->cached,
                                              std::move(given->sources)});
        } else {
          self->send(scheduler, core::denied{ask.child});
        }
      },
      [=](const core::drop_source& copied) {
        part_back(copied.lease, state->ledger.drop_source(copied.lease),
                  "a lease gave back a source block that it does not keep");
      },
      [=](const core::trim& ask) {
        part_back(ask.lease, state->ledger.trim(ask),
                  "a lease gave back rows of a layer group that it does not hold");
      },
      [=](const core::publish& computed) {
        if (!state->ledger.publish(computed))
          report_violation(*state->watcher,
                           "published blocks do not follow the last published one of the lease");
      },
      [=](const core::release& ask) {
        if (state->is_planted_leak(ask)) return;
        const auto back = state->ledger.release(ask);
        // Before the answer: the observer must see the blocks back before the next request gets
        // them.
        if (back.held > 0)
          state->watcher->on_released(ask.why, ask.preempted, back.held, state->record());
        state->verify_release();
        self->send(scheduler, core::released{ask.lease, back.usable});
      },
      [=](const core::audit& census) {
        protocol::leaked found;
        state->audit(census, found);
        state->verify();
        if (!found.leases.empty())
          self->send(scheduler, std::move(found));  // the scheduler logs each lease's last events
      },
      [=](const protocol::kv_inquiry& ask) { ask.answer(state->report()); },
  };
}

}  // namespace troupe
