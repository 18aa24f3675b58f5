// What an exploration starts from and which faults it may contain: worlds small enough for their
// whole state space to be visited. Values only.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/core/scheduler_machine.hpp"

namespace troupe::core::sim {

/// What does not happen in a run without faults. Each counts against the scenario's `faults_max`.
enum class fault : std::uint8_t {
  disconnect,   ///< the client's socket closes
  cancel,       ///< by id; also repeated, of an ended request, of an unknown id
  time_passes,  ///< so long that every pending deadline, move limit and stall limit is over
  stall,        ///< a reader confirms nothing until it resumes
  step_failed,
  bad_logits,
  move_failed,
  corrupt,  ///< one bit of a parked copy flips
  crash,    ///< a session's actor dies
  drain,
  stop,
  repeat,  ///< a submit arrives twice
};
inline constexpr int fault_count = static_cast<int>(fault::repeat) + 1;
const char* name_of(fault);
constexpr std::uint32_t bit(fault f) {
  return 1u << static_cast<int>(f);
}
inline constexpr std::uint32_t every_fault = (1u << fault_count) - 1;

struct client_script {
  std::vector<token_id> prompt;
  std::uint32_t max_tokens = 3;
  std::vector<std::string> stop;  ///< matched on the text the session makes of tokens
  bool deadline = false;          ///< total: over when time passes
  std::int32_t priority = 0;
  bool keep_prefix = false;
  std::uint32_t slices = 1;            ///< its prompt takes so many to read
  std::uint32_t tokens_per_slice = 1;  ///< known to be in each: beyond the context it is refused
  std::optional<std::size_t> tail_of;  ///< of the group that this client's submit names
  std::uint64_t seed = 0;
};

struct scenario {
  std::string name, about;
  std::vector<client_script> clients;
  scheduler_limits limits;
  std::uint32_t host_blocks = 0;  ///< 0: no host tier
  std::uint64_t outbound_bytes_max = 1 << 20;
  std::uint32_t reading_places = 1;    ///< sessions that read long prompts at a time
  std::uint32_t faults = every_fault;  ///< kinds, as bits
  std::uint32_t faults_max = 1;        ///< in one run
  std::uint64_t transitions_max = 0;   ///< of one exploration; 0: all of them
};

/// By name; throws std::invalid_argument that lists the names.
scenario scenario_named(const std::string& name);
std::vector<std::string> scenario_names();
/// Those of one preset: quick, ci, nightly.
std::vector<scenario> scenarios_of(const std::string& preset);

}  // namespace troupe::core::sim
