// Many runs of a scenario: all with a bounded number of deviations from the oldest choice, or one
// per seed; their tally; and what is made of a run that breaks a rule: a replay that must repeat
// it, a shorter run that breaks the same rule, its story, the command that repeats it.
#pragma once
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "tests/sim/shells/world.hpp"

namespace troupe::sim {

/// What all runs share.
struct stage {
  std::shared_ptr<const gpu::loaded_model> model;
  std::vector<scenario> scenarios;  ///< all variants that are played, in order
};

struct task {
  std::uint32_t scenario = 0;  ///< index in the stage
  bool enumerate = false;      ///< else one run per seed
  std::uint32_t bound = 0;     ///< enumerate: deviations from the oldest choice; >= 10000: no bound
  std::uint64_t first_seed = 1, stride = 1;
  std::uint64_t runs = 0;  ///< at most; seeds: exactly
};
inline constexpr std::uint32_t unbounded = 10'000;

struct finding {
  std::uint32_t scenario = 0;
  std::optional<std::uint64_t> seed;
  outcome run;
};

struct tally {
  std::uint64_t runs = 0, handled = 0, disturbances = 0, preemptions = 0, parks = 0;
  std::uint32_t longest = 0;  ///< choice points of one run
  std::uint32_t fault_kinds = 0;
  bool complete = true;  ///< every enumeration came to its end
  std::unordered_set<std::uint64_t> distinct;
  std::optional<finding> broken;  ///< the first

  void add(const outcome& run);
  void add(tally&& other);
};

/// Runs one run with these choices.
outcome play(coordinator_config&, const stage&, std::uint32_t scenario, chooser&, bool keep_story);

/// Until the task is done, a run breaks a rule, or another thread has found one (`stop_early`).
tally explore(coordinator_config&, const stage&, const task&, const std::atomic<bool>& stop_early);
/// All tasks on so many threads; one tally per task, in their order. After a broken run no further
/// task begins.
std::vector<tally> explore_all(const stage&, const std::vector<task>&, unsigned threads);

/// Throws divergence unless the run repeats itself; then leaves out every deviation that the
/// violation does not need.
outcome confirm_and_shorten(coordinator_config&, const stage&, const finding&);

}  // namespace troupe::sim
