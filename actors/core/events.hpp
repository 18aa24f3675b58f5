// The messages between the machines, as plain values: a verb asks for something, a past participle
// reports it. `actors/protocol` gives them CAF type ids; nothing here knows that. actors/README.md
// has the direction and meaning of each.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/api/generation.hpp"
#include "actors/api/ids.hpp"
#include "actors/api/outcome.hpp"
#include "actors/core/token_constraint.hpp"
#include "config/decode_options.hpp"

namespace troupe::core {

// ---- session -> scheduler

/// One more answer to the same prompt: a request of its own that differs in its seed alone.
struct tail_of {
  request_id request;
  std::uint64_t seed = 0;
  bool operator==(const tail_of&) const = default;
};
struct submit {
  request_id request;
  token_sequence prompt;
  decode_options decode;      ///< max_tokens is clipped to the room left
  bool score_prompt = false;  ///< echo with log-probabilities
  std::int32_t priority = 0;
  deadlines_ms deadlines;
  /// When the session began to read the prompt, which is when the deadlines begin; none: they count
  /// from the submit.
  std::optional<time_us> received_at;
  std::optional<std::string> cache_salt;  ///< prefixes are shared only among equal salts
  bool keep_prefix = false;               ///< its blocks stay cached when its client leaves
  token_constraint constraint;            ///< at the beginning of the answer
  std::vector<tail_of>
      tails;  ///< admitted and refused together with it; the prompt is computed once
  bool operator==(const submit&) const = default;
};

struct cancel {
  request_id request;
  end_reason why = end_reason::cancelled;
  time_us seen_at = 0;  ///< when the cause was seen
};

/// The session's outbound limit is reached: compute nothing more for this request until its reader
/// has caught up.
struct reader_stalled {
  request_id request;
};
struct reader_resumed {
  request_id request;
};

// ---- scheduler -> session

struct admitted {
  request_id request;
  std::uint32_t prompt_tokens = 0;
};
struct refused {
  request_id request;
  refusal why = refusal::none;
  std::string message;
};
struct tokens_out {
  request_id request;
  std::vector<scored_token> prompt_scores;  ///< of the chunk just done, in order
  std::optional<scored_token> token;
  bool is_end = false;              ///< `token` is an end or stop token: counted, not text
  std::uint32_t cached_tokens = 0;  ///< prompt tokens found in the prefix cache
};
struct ended {
  request_id request;
  end_reason why = end_reason::end_token;
  std::optional<token_id> stop_token;
  std::uint32_t prompt_tokens = 0;
  std::uint32_t completion_tokens = 0;
  std::uint32_t cached_tokens = 0;  ///< prompt tokens found in the prefix cache
  std::uint32_t preemptions = 0;
  life_phase phase = life_phase::done;  ///< where the request was when the reason arose
  request_times times;
  std::string message;  ///< for failures
};

// ---- scheduler <-> allocator (one FIFO path, so a release always follows its reserve)

/// In a block table: the layer group looks back over a window that has passed these tokens, and
/// their block was given back.
inline constexpr block_id no_block = 0xffff'ffff;

/// Prefixes are shared only within one scope. Model, tokenizer, KV type and block size would belong
/// here too, but are the same for a whole cache.
struct cache_scope {
  std::optional<std::string> salt;  ///< none and "" differ
  auto operator<=>(const cache_scope&) const = default;
};
/// The tokens a request would compute: the allocator grants the longest chain of full cached blocks
/// that hold exactly these. The last token is never among them, because it must be computed for its
/// logits.
struct prefix_query {
  cache_scope scope;
  token_sequence tokens;
  bool operator==(const prefix_query&) const = default;
};
struct reserve {
  lease_id lease;
  std::uint32_t count = 0;             ///< blocks of each layer group, those found in the cache too
  std::uint32_t keep_free = 0;         ///< of each group: how many must stay free or evictable
  std::optional<prefix_query> prefix;  ///< none: no lookup, and the lease publishes nothing
};
/// The new lease `child` begins with what `parent` has computed: it shares the parent's first
/// `shared` rows, which are full, and gets one of its own for what follows. A row is one block of
/// each layer group. Answered as a reserve.
struct fork_lease {
  lease_id parent, child;
  std::uint32_t shared = 0;  ///< rows
  /// The parent's next row is computed in part. Its first tokens have to be copied, so the child
  /// keeps it from being given away until `drop_source`.
  bool copies = false;
  std::uint32_t keep_free = 0;  ///< of each group: how many must stay free or evictable
  bool operator==(const fork_lease&) const = default;
};
/// The child has its copy.
struct drop_source {
  lease_id lease;
};
/// The layers of this group never look at the tokens of the lease's first `rows` rows again: its
/// blocks of them go back while the lease lives on.
struct trim {
  lease_id lease;
  std::uint32_t group = 0;
  std::uint32_t rows = 0;
  bool operator==(const trim&) const = default;
};
/// These rows of the lease are computed: row first, first + 1, ... hold these tokens (a multiple of
/// the block size).
struct publish {
  lease_id lease;
  std::uint32_t first = 0;
  std::vector<token_id> tokens;
};
struct release {
  lease_id lease;
  end_reason why = end_reason::end_token;
  bool preempted = false;  ///< the request lives on
  bool forget = false;     ///< what this lease brought into the cache goes, unless others use it
};
/// All leases and parked copies the scheduler knows, sorted. Anything else that allocator or mover
/// hold has leaked.
struct audit {
  std::vector<lease_id> live, parked;
};
struct granted {
  lease_id lease;
  std::vector<block_id> blocks;        ///< row by row, one of each layer group
  std::uint32_t cached = 0;            /* leading rows */
  std::vector<block_id> sources = {};  ///< of a fork that copies: one of each group
};
struct denied {
  lease_id lease;
};
struct released {
  lease_id lease;
  std::uint32_t blocks = 0;
  bool goes_on = false;  ///< the lease keeps the rest: a copied source, or trimmed blocks
};
/// An audit quarantined so many blocks: the pool is smaller from now on.
struct lost {
  std::uint32_t blocks = 0;
};

// ---- scheduler <-> mover (one FIFO path; one chunk of a lease in flight at a time)

/// Copy these blocks of the lease to the host tier, after the `first` that are there already. The
/// first chunk (first = 0) reserves room for `total` blocks or is refused.
struct move_out {
  move_id move;
  lease_id lease;
  std::uint32_t first = 0, total = 0;
  std::vector<block_id> blocks;
};
/// Copy blocks first, first + 1, ... of the parked copy into these blocks.
struct move_in {
  move_id move;
  lease_id parked;  ///< the lease the copy was made of
  std::uint32_t first = 0;
  std::vector<block_id> blocks;
};
/// Forget the copy; unknown ones are normal. Never sent while a move of it is in flight.
struct drop_parked {
  lease_id parked;
};
/// The move is over: nothing reads or writes its blocks or its slots any more.
struct moved {
  move_id move;
  move_outcome outcome = move_outcome::ok;
};

// ---- scheduler <-> executor

/// The blocks a request holds, row by row in the order of its tokens, each row one block of each
/// layer group; no_block: trimmed. A plan shares the request's own table: what a plan has seen of
/// it does not change.
using block_table = shared_sequence<block_id>;

/// What is the same from step to step (options, history, blocks) is shared with the request; only
/// `tokens` is made for the step.
struct plan_item {
  request_id request;
  /// Before anything of the step is computed, these blocks, one of each layer group, are copied
  /// into the row that holds `start`. Empty: nothing is copied.
  std::vector<block_id> copy_from;
  std::uint32_t start = 0;       ///< tokens already computed
  std::vector<token_id> tokens;  ///< those to compute now
  block_table blocks;
  bool sample = false;
  shared_decode decode;
  token_bits allowed;                   ///< empty: all; see config/token_mask.hpp
  std::vector<token_id> suppressed;     ///< never drawn in this step: end tokens before min_tokens,
                                        ///< and what the constraint forbids
  token_sequence history;               ///< prompt and answer so far, when the sampling needs them
  std::uint32_t history_prompt = 0;     ///< how many of `history` are the prompt's
  std::vector<token_id> score_targets;  ///< empty, or one per token (-1: none)
  std::vector<tail_of> tails;           ///< those draw from the same logits, each by its own seed
  bool operator==(const plan_item&) const = default;
};
struct step_plan {
  step_id step;
  std::vector<plan_item> items;
};
struct tail_result {
  request_id request;
  scored_token sampled;
};
struct item_result {
  request_id request;
  bool bad_logits = false;
  std::optional<scored_token> sampled;
  std::vector<scored_token> scores;
  bool nothing_allowed = false;         ///< the model answered, but no token may be drawn
  std::vector<tail_result> tails = {};  ///< one per tail of the item
};
struct step_done {
  step_id step;
  std::vector<item_result> items;  ///< same order as the plan
  std::uint64_t elapsed_us = 0;
};
struct step_failed {
  step_id step;
  std::string what;
};

// ---- from the runtime to the scheduler

struct tick {};   ///< check the deadlines
struct drain {};  ///< refuse new requests, let the others finish
struct stop {
  end_reason why = end_reason::shutdown;
  std::string message;
};  ///< end every request

}  // namespace troupe::core
