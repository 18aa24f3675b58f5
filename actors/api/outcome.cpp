#include "actors/api/outcome.hpp"

#include <array>
#include <cstddef>

namespace troupe::core {

namespace {

/// In the order of the enum; the sizes are checked against it.
template <std::size_t N, class Enum>
const char* look_up(const std::array<const char*, N>& names, Enum x) {
  const auto i = static_cast<std::size_t>(x);
  return i < N ? names[i] : "unknown";
}

constexpr std::array<const char*, end_reason_count> end_reason_names{
    "end_token",     "stop_token",  "stop_string",      "stop_confidence", "stop_repetition",
    "length",        "client_gone", "cancelled",        "queue_timeout",   "first_token_timeout",
    "total_timeout", "slow_reader", "session_crash",    "bad_logits",      "step_failed",
    "engine_failed", "shutdown",    "no_token_allowed", "refused"};

constexpr std::array<const char*, move_outcome_count> move_outcome_names{
    "ok", "host_full", "failed", "corrupt", "late"};

constexpr std::array<const char*, 8> refusal_names{"none",           "queue_full",   "draining",
                                                   "context_length", "kv_capacity",  "empty_prompt",
                                                   "bad_template",   "invalid_token"};

constexpr std::array<const char*, life_phase_count> life_phase_names{"queued", "prefill", "decode",
                                                                     "done", "parked"};

}  // namespace

const char* name_of(end_reason x) {
  return look_up(end_reason_names, x);
}
const char* name_of(move_outcome x) {
  return look_up(move_outcome_names, x);
}
const char* name_of(refusal x) {
  return look_up(refusal_names, x);
}
const char* name_of(life_phase x) {
  return look_up(life_phase_names, x);
}

}  // namespace troupe::core
