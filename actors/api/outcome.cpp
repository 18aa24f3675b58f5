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

/// Every end reason once: its name in log and metrics, and whether the answer came to its own end.
struct end_row {
  end_reason reason;
  const char* name;
  bool natural;
};
constexpr std::array<end_row, end_reason_count> end_rows{{
    {end_reason::end_token, "end_token", true},
    {end_reason::stop_token, "stop_token", true},
    {end_reason::stop_string, "stop_string", true},
    {end_reason::stop_confidence, "stop_confidence", true},
    {end_reason::stop_repetition, "stop_repetition", true},
    {end_reason::length, "length", true},
    {end_reason::client_gone, "client_gone", false},
    {end_reason::cancelled, "cancelled", false},
    {end_reason::queue_timeout, "queue_timeout", false},
    {end_reason::first_token_timeout, "first_token_timeout", false},
    {end_reason::total_timeout, "total_timeout", false},
    {end_reason::slow_reader, "slow_reader", false},
    {end_reason::session_crash, "session_crash", false},
    {end_reason::bad_logits, "bad_logits", false},
    {end_reason::step_failed, "step_failed", false},
    {end_reason::engine_failed, "engine_failed", false},
    {end_reason::shutdown, "shutdown", false},
    {end_reason::no_token_allowed, "no_token_allowed", false},
    {end_reason::refused, "refused", false},
}};
static_assert([] {
  for (std::size_t i = 0; i < end_rows.size(); ++i)
    if (static_cast<std::size_t>(end_rows[i].reason) != i) return false;
  return true;
}());

constexpr std::array<const char*, move_outcome_count> move_outcome_names{
    "ok", "host_full", "failed", "corrupt", "late"};

constexpr std::array<const char*, 8> refusal_names{"none",           "queue_full",   "draining",
                                                   "context_length", "kv_capacity",  "empty_prompt",
                                                   "bad_template",   "invalid_token"};

constexpr std::array<const char*, life_phase_count> life_phase_names{"queued", "prefill", "decode",
                                                                     "done", "parked"};

}  // namespace

const char* name_of(end_reason x) {
  const auto i = static_cast<std::size_t>(x);
  return i < end_rows.size() ? end_rows[i].name : "unknown";
}
bool natural(end_reason x) {
  const auto i = static_cast<std::size_t>(x);
  return i < end_rows.size() && end_rows[i].natural;
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
