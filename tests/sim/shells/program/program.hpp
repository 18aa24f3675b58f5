// The program troupe-simulate: its options, the plans of runs, its reports. Knows no actor.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/shells/explore.hpp"

namespace troupe::sim {

struct settings {
  std::vector<std::string> scenarios;  ///< empty: all
  std::optional<std::uint32_t> variant;
  std::optional<std::uint64_t> seed;
  std::optional<std::string> trace, seed_text;
  std::optional<std::uint32_t> bound;
  std::uint64_t runs = 0;
  unsigned jobs = 2;
  bool exhaustive = false, until_failure = false, ci = false, quick = false, json = false;
};

/// Ends the process for --help and for wrong options.
settings read_settings(int argc, char** argv);

/// One line of the report: tasks that belong together.
struct group {
  std::string name, bounds;
  std::vector<task> tasks;
  std::uint64_t floor = 0;  ///< runs it must reach
};
/// What is to be run for these settings; seeds begin at `first_seed`.
std::vector<group> plan_of(const settings&, const stage&, std::uint64_t first_seed);

std::uint64_t seed_of_text(const std::string& text);

/// Which floor of the CI plan was missed, as text; empty: none.
std::string missed_floors(const settings&, const tally& sum);

struct row {
  const group* what = nullptr;
  tally total;
};
void print_report(const settings&, const std::vector<row>&, double seconds);
/// Story, violation and the command that repeats it.
void print_broken(const settings&, const stage&, const finding&, const outcome& shortened,
                  std::uint64_t runs);
void print_story(const settings&, const scenario&, const outcome&);

}  // namespace troupe::sim
