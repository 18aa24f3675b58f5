#include "actors/core/outcome.hpp"

namespace troupe::core {

const char* name_of(end_reason x) {
  switch (x) {
    case end_reason::end_token:
      return "end_token";
    case end_reason::stop_token:
      return "stop_token";
    case end_reason::stop_string:
      return "stop_string";
    case end_reason::stop_confidence:
      return "stop_confidence";
    case end_reason::stop_repetition:
      return "stop_repetition";
    case end_reason::length:
      return "length";
    case end_reason::client_gone:
      return "client_gone";
    case end_reason::cancelled:
      return "cancelled";
    case end_reason::queue_timeout:
      return "queue_timeout";
    case end_reason::first_token_timeout:
      return "first_token_timeout";
    case end_reason::total_timeout:
      return "total_timeout";
    case end_reason::slow_reader:
      return "slow_reader";
    case end_reason::session_crash:
      return "session_crash";
    case end_reason::bad_logits:
      return "bad_logits";
    case end_reason::step_failed:
      return "step_failed";
    case end_reason::engine_failed:
      return "engine_failed";
    case end_reason::shutdown:
      return "shutdown";
    case end_reason::refused:
      return "refused";
  }
  return "unknown";
}

const char* name_of(move_outcome x) {
  switch (x) {
    case move_outcome::ok:
      return "ok";
    case move_outcome::host_full:
      return "host_full";
    case move_outcome::failed:
      return "failed";
    case move_outcome::corrupt:
      return "corrupt";
    case move_outcome::late:
      return "late";
  }
  return "unknown";
}

const char* name_of(refusal x) {
  switch (x) {
    case refusal::none:
      return "none";
    case refusal::queue_full:
      return "queue_full";
    case refusal::draining:
      return "draining";
    case refusal::context_length:
      return "context_length";
    case refusal::kv_capacity:
      return "kv_capacity";
    case refusal::empty_prompt:
      return "empty_prompt";
    case refusal::bad_template:
      return "bad_template";
    case refusal::invalid_token:
      return "invalid_token";
  }
  return "unknown";
}

const char* name_of(life_phase x) {
  switch (x) {
    case life_phase::queued:
      return "queued";
    case life_phase::prefill:
      return "prefill";
    case life_phase::decode:
      return "decode";
    case life_phase::done:
      return "done";
    case life_phase::parked:
      return "parked";
  }
  return "unknown";
}

}  // namespace troupe::core
