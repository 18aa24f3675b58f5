// What an exploration begins with and which faults it may meet: small worlds, chosen so that their
// whole state space can be visited. Values only.
#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "actors/core/scheduler_machine.hpp"

namespace troupe::core::sim {

/// What no well-behaved run contains. Each costs one of the scenario's faults.
enum class fault : std::uint8_t {
  disconnect,   ///< the client's socket closes
  cancel,       ///< by id; repeated, for an ended or unknown one it is one more
  time_passes,  ///< so long that every pending deadline, move limit and stall limit is over
  stall,        ///< a reader takes nothing more, until it resumes
  step_failed,
  bad_logits,
  move_failed,
  corrupt,  ///< a bit of what was parked flips
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
};

struct scenario {
  std::string name, about;
  std::vector<client_script> clients;
  scheduler_limits limits;
  std::uint32_t host_blocks = 0;  ///< 0: no host tier
  std::uint64_t outbound_bytes_max = 1 << 20;
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
