// What is simulated: who asks for what of which pool, and which disturbances may come how often.
// Plain values, made once; a run is one way through a scenario.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/core/scheduler_machine.hpp"
#include "gpu/model/loaded_model.hpp"

namespace troupe::sim {

/// What the outside can do to a run, each at any moment.
enum class fault : std::uint8_t {
  left_silently,   ///< the client's sink is gone, nobody says so
  left,            ///< the sink is gone and the connection says so
  cancel,          ///< by id; may come again and again, and after the end
  crash,           ///< the session's actor is killed
  reader_stops,    ///< the reader keeps what it has and reads on later
  unknown_cancel,  ///< of a request nobody has heard of
  step_fails,      ///< the device throws at the next step
  copy_fails,      ///< the oldest copy ends half done
  copy_spoilt,     ///< a byte of the oldest copy changes on the host
  copy_refused,    ///< the device throws at the next copy
  time_passes,     ///< the next timer, early
  deadline,        ///< so much time that every deadline is over
  drain,
  stop,
  count,
};
const char* name_of(fault);
using faults = std::uint32_t;  ///< a set: bit of each fault
constexpr faults bit(fault f) {
  return 1u << static_cast<unsigned>(f);
}

/// One client's request and what it must get when nobody disturbs it.
struct asked {
  std::vector<token_id> prompt;
  std::uint32_t max_tokens = 3;
  std::uint64_t seed = 0;
  std::int32_t priority = 0;
  std::vector<std::string> stop;
  core::deadlines_ms deadlines;
  std::string solo;               ///< the whole answer, alone
  std::uint32_t solo_tokens = 0;  ///< counted, alone
};

struct scenario {
  std::string name;  ///< "two"
  std::string what;  ///< of this variant, in words
  std::uint32_t variant = 0;
  core::scheduler_limits limits;
  std::uint32_t host_slots = 0;  ///< > 0: with a mover
  std::uint64_t outbound_bytes_max = 1 << 20;
  std::vector<asked> clients;
  faults allowed = 0;
  std::uint32_t fault_budget = 1;  ///< of one run
  std::uint32_t bound = 0;         ///< of deviations, where runs are enumerated
};

/// "one", "two", "many", "parking": the variants of each. Throws std::invalid_argument for another
/// name.
std::vector<scenario> variants_of(const std::string& name, const gpu::tokenizer& vocabulary);

}  // namespace troupe::sim
