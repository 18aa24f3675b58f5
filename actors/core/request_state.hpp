// The state of a request, as tests, audit and actors/STATES.md name it. Below request.hpp, which
// maps its state structs to these, and scheduler_machine.hpp.
#pragma once
#include <cstdint>

namespace troupe::core {

/// `received` and `tokenizing` belong to the session.
enum class request_state : std::uint8_t {
  received,
  tokenizing,
  queued,          ///< no lease
  awaiting_fork,   ///< no lease: another request of its group computes their prompt
  awaiting_grant,  ///< lease asked for, not yet answered
  forking,         ///< has its first token; asked to share the prompt's blocks, not yet answered
  prefilling,      ///< between chunks
  prefilling_in_flight,
  decoding,  ///< between steps
  decoding_in_flight,
  awaiting_recompute,  ///< preempted: no lease, in the queue again
  moving_out,          ///< preempted, one chunk of it is being copied to the host tier
  parked,              ///< no lease, a copy on the host tier, in the queue again
  moving_in,           ///< has a lease again, one chunk is being copied back
  paused,              ///< has its blocks, computes nothing: its reader is behind
  retiring,            ///< ended, still named by the step in flight or by a move
  gone,
};
inline constexpr int request_state_count = static_cast<int>(request_state::gone) + 1;
const char* name_of(request_state);

}  // namespace troupe::core
