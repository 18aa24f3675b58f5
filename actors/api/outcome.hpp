// Why a request ended, and why one was refused: one enum each, used by scheduler, sessions, log and
// metrics alike.
#pragma once
#include <cstdint>

namespace troupe::core {

/// Exactly one per request. The order is the order of the metric labels.
enum class end_reason : std::uint8_t {
  end_token,        ///< the model's end token
  stop_token,       ///< one of the request's stop_token_ids
  stop_string,      ///< text stop, decided by the session
  stop_confidence,  ///< sustained low confidence
  stop_repetition,  ///< the answer repeats itself
  length,           ///< max_tokens or the effective context
  client_gone,      ///< socket closed, reset, half-closed, silent or write failed
  cancelled,        ///< cancel by id
  queue_timeout,
  first_token_timeout,
  total_timeout,
  slow_reader,       ///< outbound limit reached
  session_crash,     ///< the session actor died
  bad_logits,        ///< NaN or all -inf
  step_failed,       ///< the device refused or failed the step
  engine_failed,     ///< scheduler, allocator or executor died: fail stop
  shutdown,          ///< the drain time was over
  no_token_allowed,  ///< allowed_token_ids, bad_words and min_tokens leave none to draw
  refused,           ///< never admitted (see refusal)
};
inline constexpr int end_reason_count = static_cast<int>(end_reason::refused) + 1;

enum class refusal : std::uint8_t {
  none,
  queue_full,      ///< 503 server_is_overloaded
  draining,        ///< 503 server_shutting_down
  context_length,  ///< 400 context_length_exceeded
  kv_capacity,     ///< 400 kv_capacity_exceeded
  empty_prompt,    ///< 400: no token to start from
  bad_template,    ///< 400: the chat template raised an error
  invalid_token,   ///< 400: a token id outside the vocabulary
};

/// How a copy between the tiers ended. Everything but ok means: compute it again.
enum class move_outcome : std::uint8_t {
  ok,
  host_full,  ///< no room on the host tier
  failed,     ///< the device did not copy
  corrupt,    ///< the checksum of what came back is not that of what was parked
  late,  ///< not over within the time for copies; decided by the scheduler, its blocks wait for the
         ///< end
};
inline constexpr int move_outcome_count = static_cast<int>(move_outcome::late) + 1;
const char* name_of(move_outcome);

const char* name_of(end_reason);
/// The answer is complete: a stop rule or its length ended it, no cancel, deadline or failure.
bool natural(end_reason);
const char* name_of(refusal);

/// Which part of its life a request was in when its client left (metric label `phase`).
enum class life_phase : std::uint8_t { queued, prefill, decode, done, parked };
inline constexpr int life_phase_count = static_cast<int>(life_phase::parked) + 1;
const char* name_of(life_phase);

}  // namespace troupe::core
