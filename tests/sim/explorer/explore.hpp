// Depth-first over every reachable state of a scenario, each visited once (told apart by 128-bit
// digests). Finds broken rules, deadlocks (nothing can happen and not every request has ended) and
// livelocks (a run that returns to a state it was in). A space without any of these drains from
// every state once no fault happens any more.
#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/explorer/scenario.hpp"
#include "tests/sim/explorer/world.hpp"

namespace troupe::core::sim {

struct bounds {
  std::uint64_t transitions_max = 0;     ///< 0: none
  std::size_t states_max = 400'000'000;  ///< 16 bytes each, a third more at times
};

struct report {
  std::string scenario;
  std::uint64_t states = 0, transitions = 0, ends = 0;
  std::size_t depth_max = 0;
  double seconds = 0;
  bool complete = true;  ///< no bound cut it short
  cell_counts cells{};
  std::set<std::pair<fault, fault>> pairs;  ///< met in one run, smaller first
  std::string broken;                       ///< the broken rule; empty: none
  std::vector<choice> path;                 ///< the choices that led there
};

/// `progress` is called now and then.
report explore(const scenario&, const bounds&,
               const std::function<void(const report&)>& progress = {});

/// The messages of a run, line by line; the last line is the broken rule, if there is one.
std::vector<std::string> replay(const scenario&, const std::vector<choice>& path);
std::string text_of(const std::vector<choice>& path);
/// Throws std::invalid_argument.
std::vector<choice> path_of(const std::string& text);

}  // namespace troupe::core::sim
