// One request as the scheduler sees it: one struct per state, with exactly what the request holds
// in that state, and the data that all states share. A transition moves the old state's parts into
// the new one, so a lease cannot be used after the state that held it. Owned by scheduler_machine;
// ids only, copyable and comparable. Decides nothing.
#pragma once
#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "actors/core/deadline.hpp"
#include "actors/core/events.hpp"
#include "actors/core/request_state.hpp"
#include "actors/core/scheduler_limits.hpp"
#include "actors/core/state_hash.hpp"

namespace troupe::core {

/// Order of the queue and of preemption: lower first. A preempted request keeps its rank.
struct rank {
  std::int32_t priority = 0;
  std::uint64_t arrival = 0;  ///< unique
  constexpr auto operator<=>(const rank&) const = default;
};

/// What a resident request holds: its lease, the blocks seen so far, and how many tokens are in
/// them.
struct holding {
  enum class growth : std::uint8_t { none, asked, denied };
  lease_id lease;
  block_table blocks;
  std::uint32_t computed = 0;
  std::uint32_t published = 0;  ///< leading rows the allocator knows to be computed
  /// Per layer group: leading rows whose block went back. Empty: none of any group.
  std::vector<std::uint32_t> trimmed;
  growth grow = growth::none;
  bool alone = false;  ///< no other request held or awaited blocks when it last asked
  /// Of a fork: the row that is copied into the one that holds the first token to compute, in the
  /// step that computes it. Until then the tokens of that row are not here. Empty: none.
  std::vector<block_id> sources;
  bool operator==(const holding&) const = default;
};

/// What the host tier keeps of a preempted request.
struct parked_copy {
  lease_id lease;              ///< the lease it was copied from; names the copy
  std::uint32_t computed = 0;  ///< tokens in it
  std::uint32_t blocks = 0;
  std::vector<std::uint32_t> trimmed = {};  ///< as the lease's was: these rows are not in it
  bool operator==(const parked_copy&) const = default;
};

/// A copy between the tiers, one chunk of which is in flight.
struct transfer {
  move_id move;
  std::uint32_t done = 0, chunk = 0;  ///< blocks: copied already, in flight
  bool operator==(const transfer&) const = default;
};

/// How a request is about to end.
struct verdict {
  end_reason why = end_reason::end_token;
  std::optional<token_id> stop_token;
  std::string message;
  bool operator==(const verdict&) const = default;
};

namespace life {
struct queued {
  bool operator==(const queued&) const = default;
};
struct awaiting_grant {
  lease_id lease;
  std::uint32_t asked = 0;  ///< rows
  bool alone = false;       ///< no other request holds or awaits blocks: a denial is a violation
  std::optional<parked_copy> copy;  ///< moved back once granted
  bool operator==(const awaiting_grant&) const = default;
};
/// The group's leader computes the prompt; this one draws its first token from the same logits.
struct awaiting_fork {
  request_id leader;
  bool operator==(const awaiting_fork&) const = default;
};
/// Asked to share the leader's prompt blocks.
struct forking {
  lease_id lease;
  std::uint32_t rows = 0;  ///< shared and its own
  bool operator==(const forking&) const = default;
};
struct prefilling {
  holding held;
  bool operator==(const prefilling&) const = default;
};
struct prefilling_in_flight {
  holding held;
  std::uint32_t chunk = 0;  ///< tokens the step computes
  bool operator==(const prefilling_in_flight&) const = default;
};
struct decoding {
  holding held;
  bool operator==(const decoding&) const = default;
};
struct decoding_in_flight {
  holding held;
  bool operator==(const decoding_in_flight&) const = default;
};
struct awaiting_recompute {
  bool operator==(const awaiting_recompute&) const = default;
};
/// Preempted: its blocks are being copied to the host tier and are released when all are copied.
struct moving_out {
  holding kept;
  parked_copy copy;  ///< what it will be
  transfer way;
  bool operator==(const moving_out&) const = default;
};
/// No lease; in the queue again.
struct parked {
  parked_copy copy;
  bool operator==(const parked&) const = default;
};
/// Its copy is being moved into a new lease.
struct moving_in {
  holding kept;
  parked_copy copy;
  transfer way;
  bool operator==(const moving_in&) const = default;
};
/// Ended, but the step in flight or a move still names its blocks: they are released when that
/// operation is over, and not before.
struct retiring {
  lease_id lease;
  verdict end;
  life_phase phase = life_phase::done;
  std::optional<move_id> move;   ///< the move it waits for; none: the step
  std::optional<lease_id> copy;  ///< on the host tier, to be dropped
  bool operator==(const retiring&) const = default;
};
}  // namespace life

using life_state =
    std::variant<life::queued, life::awaiting_grant, life::prefilling, life::prefilling_in_flight,
                 life::decoding, life::decoding_in_flight, life::awaiting_recompute,
                 life::moving_out, life::parked, life::moving_in, life::retiring,
                 life::awaiting_fork, life::forking>;

struct request {
  request_id id;
  rank order;
  life_state state;

  token_sequence tokens;  ///< prompt, then generated
  std::uint32_t prompt_tokens = 0;
  std::uint32_t max_tokens = 0;    ///< already clipped to the room
  shared_decode decode;            ///< as asked for; stop_token_ids sorted
  std::uint32_t unsure_steps = 0;  ///< in a row below the mass of `confidence`
  std::vector<request_id> tails;   ///< in state awaiting_fork, for this one
  cache_scope scope;
  bool keep_prefix = false;
  token_constraint constraint;  ///< behind the last of `tokens`
  std::uint32_t cached_tokens =
      0;  ///< of the prompt, found in the prefix cache when it first came in
  std::uint32_t scored =
      0;  ///< prompt tokens whose score is out; prompt_tokens when none is wanted

  std::uint32_t epoch = 0;  ///< leases asked for so far
  std::uint32_t preemptions = 0;
  deadline_times due;
  std::optional<time_us> reader_by;  ///< set while its reader is behind: when that ends the request
  time_us submitted_at = 0;
  std::optional<time_us> granted_at, planned_at, first_token_at, last_token_at;

  bool operator==(const request&) const = default;

  std::uint32_t size() const { return static_cast<std::uint32_t>(tokens.size()); }
  std::uint32_t completion() const { return size() - prompt_tokens; }
  /// Tokens that need room in the cache when it runs to its limit: all but the last sampled one,
  /// which is never an input.
  std::uint32_t cached_at_most() const;
  bool in_flight() const;
  bool stalled() const { return reader_by.has_value(); }
  /// Null in states that hold no blocks a step could use.
  const holding* held() const;
  holding* held();
  /// None without a lease held or asked for.
  std::optional<lease_id> lease() const;
  /// Names the copy that the host tier holds, or may hold, for it.
  std::optional<lease_id> copy() const;
  /// The move in flight for it.
  std::optional<move_id> move() const;
  life_phase phase() const;
  deadline_progress progress() const;
  request_times times(time_us now) const;
  /// The deadline that is over, if any; none while retiring.
  std::optional<end_reason> overdue(time_us now) const;
  /// The next moment at which overdue() may return a reason.
  time_us next_deadline() const;
  void add_to(state_hash&) const;
};

request_state state_of(const request&);

/// A fresh record in state queued. `limits` gives the defaults and the room; the submit was found
/// acceptable.
request make_request(const submit&, rank, const scheduler_limits&, time_us now);
/// Another answer to the leader's prompt, in state awaiting_fork.
request make_tail(const request& leader, const tail_of&, rank);

}  // namespace troupe::core
