// The KV state of the whole engine as scheduler, allocator and mover each see it, and what must
// hold between the three views. Plain values. The request for it travels on the scheduler's FIFO
// paths, so allocator and mover have handled everything that the scheduler's view has sent. Changes
// nothing.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "actors/api/ids.hpp"

namespace troupe::core {

struct block_counts {
  std::uint32_t total = 0, free = 0, leased = 0, cached = 0, quarantined = 0;
  /// A block counts once for every lease it was given to or came back from.
  std::uint64_t allocated_total = 0, released_total = 0;
  std::uint64_t empty_releases = 0;
  std::uint64_t evicted_total = 0;  ///< cached blocks given to another lease
  bool operator==(const block_counts&) const = default;
};

/// Where a block is, and who holds it.
enum class block_place : std::uint8_t { free, leased, cached, quarantined };
struct block_census_line {
  block_place where = block_place::free;
  std::vector<lease_id> holders;
  std::vector<lease_id> copied_by =
      {};  ///< forks whose copy of it is not made yet: they keep it too
};

struct move_counts {
  std::uint32_t total = 0;
  std::uint32_t used = 0;  ///< reserved, filled or not
  std::uint32_t filled = 0;
  std::uint32_t copies = 0;  ///< leases with slots
  std::uint32_t moving = 0;  ///< moves in flight, each of which pins its slots
  std::uint64_t reserved_total = 0, freed_total = 0;  ///< slots
  std::uint64_t unknown_drops = 0;                    ///< drops of copies that do not exist: normal
  std::uint64_t stale_ends = 0;  ///< ends of moves that are not in flight: late or repeated
  bool operator==(const move_counts&) const = default;
};

/// One copy on the host tier.
struct parked_census_line {
  lease_id lease;
  std::uint32_t slots = 0, filled = 0;
  std::uint32_t moving = 0;  ///< blocks that the move in flight names
  move_id move;              ///< none: no move in flight
  bool out = false;
};

/// Something that happened to a request's lease. Repetitions are one entry, with the time of the
/// last.
struct kv_event {
  const char* what = "";
  std::uint32_t epoch = 0;  ///< of the lease; 0: none yet
  std::uint32_t times = 1;
  time_us at = 0;
};

struct kv_request_view {
  request_id id;
  const char* state = "";
  std::optional<lease_id> lease;
  std::optional<std::vector<block_id>> blocks;  ///< none: not known (not granted yet, or retiring)
  std::uint32_t computed = 0;                   ///< tokens in them
  std::uint32_t asking = 0;          ///< blocks of a reserve in flight: the allocator may be ahead
  std::vector<block_id> sources;     ///< copied before its next step, one of each layer group
  std::optional<request_id> leader;  ///< whose prefill it waits for
  std::optional<lease_id> copy;      ///< on the host tier
  std::uint32_t copy_blocks = 0;
  bool copy_whole = false;       ///< all of it must be there; else it is being moved
  std::vector<kv_event> events;  ///< oldest first
};
struct kv_step_view {
  step_id step;
  std::vector<request_id> requests;
};
struct kv_move_view {
  move_id move;
  request_id request;
  lease_id lease, copy;
  bool out = true, abandoned = false;
  std::uint32_t blocks = 0;
  time_us age_us = 0;
};

struct kv_scheduler_part {
  time_us at = 0;
  std::vector<kv_request_view> requests;
  std::optional<kv_step_view> step;
  std::vector<kv_move_view> moves;
  std::uint64_t ignored_events = 0;
  std::string broken;  ///< check()
};
struct kv_allocator_part {
  block_counts counts;
  std::vector<block_census_line> blocks;
  std::uint64_t leaked = 0;  ///< blocks, over all audits
  std::string broken;
};
struct kv_mover_part {  ///< all zero without a host tier
  move_counts counts;
  std::vector<parked_census_line> copies;
  std::uint64_t leaked = 0;
  std::string broken;
};
using kv_part = std::variant<kv_scheduler_part, kv_allocator_part, kv_mover_part>;

struct kv_report {
  kv_scheduler_part scheduler;
  kv_allocator_part allocator;
  kv_mover_part mover;
};

/// Blocks that moves in flight name. They are part of the leased ones.
std::uint32_t moving_blocks(const kv_mover_part&);
/// Every contradiction, as text: in the sums, between scheduler and allocator about leases, between
/// scheduler and mover about copies, and what the owners' own checks found. Empty: none.
std::vector<std::string> find_problems(const kv_report&);
/// "3.1": request and epoch.
std::string name_of(lease_id);

enum class engine_part : std::uint8_t { scheduler, allocator, executor, mover };

/// The one debugging entry of an engine. Every call sends a message and returns at once.
class engine_probe {
 public:
  virtual ~engine_probe() = default;
  /// Calls back from engine threads, once with each part; not at all with the part of an actor that
  /// is dead or stuck.
  virtual void audit(std::function<void(kv_part)> answer) = 0;
  /// Delays the device's next step by that much.
  virtual void freeze(std::uint32_t ms) = 0;
  /// Ends that part as a crash would: how fail-stop is tested.
  virtual void crash(engine_part) = 0;
};

}  // namespace troupe::core
