// What is simulated: the clients' requests, the size of the pool, and which disturbances may happen
// how often. Plain values, made once; a run is one sequence of choices in a scenario.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "actors/core/scheduler_machine.hpp"
#include "gpu/model/loaded_model.hpp"

namespace troupe::sim {

/// What can disturb a run, each at any point of it.
enum class fault : std::uint8_t {
  left_silently,   ///< the client's sink is gone; the session finds out when it delivers
  left,            ///< the sink is gone and the connection sends a cancel
  cancel,          ///< by id; also repeated, and after the end
  crash,           ///< the session's actor is killed
  reader_stops,    ///< the reader confirms nothing until it reads on
  unknown_cancel,  ///< of an id that no request has
  step_fails,      ///< the device throws at the next step
  copy_fails,      ///< the oldest copy ends half done
  copy_corrupted,  ///< a byte of the oldest copy changes on the host
  copy_refused,    ///< the device throws at the next copy
  time_passes,     ///< the next timer fires early
  deadline,        ///< ten seconds: every deadline is over
  drain,
  stop,
  count,
};
const char* name_of(fault);
using faults = std::uint32_t;  ///< a set: bit of each fault
constexpr faults bit(fault f) {
  return 1u << static_cast<unsigned>(f);
}

/// One client's request, and the answer it must get when it is not disturbed.
struct client_request {
  std::vector<token_id> prompt;
  std::uint32_t max_tokens = 3;
  std::uint64_t seed = 0;
  std::int32_t priority = 0;
  std::vector<std::string> stop;
  core::deadlines_ms deadlines;
  std::string solo;               ///< the whole answer when it runs alone
  std::uint32_t solo_tokens = 0;  ///< completion tokens of that answer
};

struct scenario {
  std::string name;  ///< "two"
  std::string what;  ///< describes this variant
  std::uint32_t variant = 0;
  core::scheduler_limits limits;
  std::uint32_t host_slots = 0;  ///< > 0: with a mover
  std::uint64_t outbound_bytes_max = 1 << 20;
  std::vector<client_request> clients;
  faults allowed = 0;
  std::uint32_t fault_budget = 1;  ///< of one run
  std::uint32_t bound = 0;         ///< of deviations, where runs are enumerated
};

/// "one", "two", "many", "parking": the variants of each. Throws std::invalid_argument for another
/// name.
std::vector<scenario> variants_of(const std::string& name, const gpu::tokenizer& vocabulary);

}  // namespace troupe::sim
