#include "actors/mover_actor.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/send.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <chrono>
#include <map>
#include <mutex>

#include "actors/core/blocks/move_ledger.hpp"
#include "actors/fail_stop.hpp"
#include "config/bytes/checksum.hpp"

namespace troupe {
namespace {

using steady = std::chrono::steady_clock;

/// How the backend's copy thread reports to the actor. A copy may end after the actor and even
/// after its actor system: the actor closes this when it dies, and once closed it touches nothing
/// of CAF.
class copy_report {
 public:
  explicit copy_report(caf::weak_actor_ptr owner) : owner_(std::move(owner)) {}

  void send(core::moved over) {
    // Declared before the lock, so dropped after it: the last handle ends the actor, which calls
    // close().
    caf::strong_actor_ptr to;
    const std::lock_guard lock(mutex_);
    if (open_) to = owner_.lock();
    if (to) caf::anon_send(caf::actor_cast<caf::actor>(to), over);
  }
  void close() {
    const std::lock_guard lock(mutex_);
    open_ = false;
  }

 private:
  std::mutex mutex_;
  bool open_ = true;
  caf::weak_actor_ptr owner_;
};

/// One chunk in flight. The copy thread writes the checksums and then reports; only after the
/// report does the actor read them.
struct transfer {
  bool out = true;
  std::uint32_t blocks = 0;
  steady::time_point begun;
  std::vector<std::uint64_t> checksums;
};

struct mover {
  mover_shell::pointer self;
  std::shared_ptr<gpu::backend> device;
  std::shared_ptr<host_memory> host;
  protocol::scheduler_actor scheduler;
  core::observer* watcher;
  std::shared_ptr<copy_report> reports;
  core::move_ledger ledger{host->slots()};
  std::map<core::move_id, std::shared_ptr<transfer>> transfers{};
  std::uint64_t leaked = 0;

  void report_tier() const {
    const auto counts = ledger.counts();
    watcher->on_host_tier({counts.total, counts.used, leaked});
    if (const auto broken = ledger.check(); !broken.empty()) report_violation(*watcher, broken);
  }

  void answer(core::move_id move, core::move_outcome outcome, const transfer& of) const {
    const auto elapsed =
        std::chrono::duration_cast<std::chrono::microseconds>(steady::now() - of.begun).count();
    watcher->on_move({of.out, outcome, of.blocks, static_cast<std::uint64_t>(elapsed)});
    self->send(scheduler, core::moved{move, outcome});
  }

  /// Starts the copy that the ledger allows, or answers why not.
  void start(core::move_id move, const std::vector<core::block_id>& blocks, bool out,
             const core::move_start& granted) {
    auto one = std::make_shared<transfer>();
    one->out = out;
    one->blocks = static_cast<std::uint32_t>(blocks.size());
    one->begun = steady::now();
    if (!granted.violation.empty()) {
      report_violation(*watcher, granted.violation);
      if (ledger.under_way(move)) return;  // the move in flight under this id will answer
    }
    if (granted.outcome != core::move_outcome::ok) return answer(move, granted.outcome, *one);
    transfers.emplace(move, one);
    const auto places = places_of(blocks, granted);
    if (!out && !intact(places, granted)) return finish({move, core::move_outcome::corrupt});

    gpu::block_copy copy;
    copy.towards =
        out ? gpu::block_copy::direction::to_host : gpu::block_copy::direction::to_device;
    copy.blocks = blocks;
    copy.host = places;
    if (out) one->checksums.resize(blocks.size());
    try {
      device->copy(std::move(copy),
                   // It keeps the memory that `places` point into.
                   [move, one, places, memory = host, report = reports](bool ok) {
                     for (std::size_t i = 0; ok && i < one->checksums.size(); ++i)
                       one->checksums[i] = checksum64(places[i]);
                     report->send({move, ok ? core::move_outcome::ok : core::move_outcome::failed});
                   });
    } catch (const std::exception&) {
      finish({move, core::move_outcome::failed});  // refused before it touched anything
    }
  }

  /// The bytes of each block in its slot: groups of layers differ in size, slots do not. A block
  /// outside the pool gets the whole slot, and the device refuses it.
  std::vector<std::span<std::byte>> places_of(const std::vector<core::block_id>& blocks,
                                              const core::move_start& granted) const {
    const auto& kv = device->info().kv;
    std::vector<std::span<std::byte>> out;
    out.reserve(blocks.size());
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const auto group = kv.group_of_block(blocks[i]);
      const auto slot = host->slot(granted.slots[i]);
      const bool known = group < kv.groups.size();
      out.push_back(known ? slot.first(static_cast<std::size_t>(kv.block_bytes(group))) : slot);
    }
    return out;
  }

  static bool intact(const std::vector<std::span<std::byte>>& places,
                     const core::move_start& granted) {
    for (std::size_t i = 0; i < places.size(); ++i)
      if (checksum64(places[i]) != granted.checksums[i]) return false;
    return true;
  }

  void finish(const core::moved& over) {
    const auto found = transfers.find(over.move);
    if (found == transfers.end()) {
      ledger.end_in(over.move);  // late or repeated: counted
      return;
    }
    const auto one = found->second;
    transfers.erase(found);
    if (one->out) {
      ledger.end_out(over.move, over.outcome == core::move_outcome::ok, one->checksums);
    } else {
      ledger.end_in(over.move);
    }
    report_tier();
    answer(over.move, over.outcome, *one);
  }

  void drop(core::lease_id lease) {
    const auto before = ledger.counts();
    if (ledger.drop(lease) == 0 && ledger.counts().unknown_drops == before.unknown_drops)
      report_violation(*watcher, "a copy was dropped while a move of it was in flight");
    report_tier();
  }

  core::kv_mover_part report() const {
    return {ledger.counts(), ledger.census(), leaked, ledger.check()};
  }

  void audit(const std::vector<core::lease_id>& parked) {
    if (const auto lost = ledger.drop_unknown(parked); lost > 0) {
      leaked += lost;
      report_violation(*watcher, "dropped " + std::to_string(lost) +
                                     " host-tier blocks that no live request owns");
    }
    report_tier();
  }
};

}  // namespace

mover_shell::behavior_type mover_actor(mover_shell::pointer self,
                                       const std::shared_ptr<gpu::backend>& device,
                                       const std::shared_ptr<host_memory>& host,
                                       const protocol::scheduler_actor& scheduler,
                                       core::observer* watcher) {
  fail_stop(self, *watcher, "mover");
  const auto reports = std::make_shared<copy_report>(caf::actor_cast<caf::weak_actor_ptr>(self));
  self->attach_functor([reports](const caf::error&) { reports->close(); });
  const auto state =
      std::make_shared<mover>(mover{self, device, host, scheduler, watcher, reports});
  state->report_tier();
  return {
      [=](const core::move_out& ask) {
        const auto granted = state->ledger.begin_out(ask);
        if (granted.outcome == core::move_outcome::ok) state->report_tier();
        state->start(ask.move, ask.blocks, true, granted);
      },
      [=](const core::move_in& ask) {
        state->start(ask.move, ask.blocks, false, state->ledger.begin_in(ask));
      },
      [=](const core::drop_parked& ask) { state->drop(ask.parked); },
      [=](const core::audit& census) { state->audit(census.parked); },
      [=](const core::moved& over) { state->finish(over); },
      [=](const protocol::kv_inquiry& ask) { ask.answer(state->report()); },
  };
}

}  // namespace troupe
