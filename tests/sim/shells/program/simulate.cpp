// troupe-simulate: the real actors under a scheduler that chooses every order of their messages.
// Exit code 0: every run kept the rules and every floor was reached; 1: not; 2: a mistake in the
// options, or a replay that diverged.
#include <chrono>
#include <cstdio>
#include <exception>

#include "tests/sim/shells/program/program.hpp"
#include "tests/support/temporary_file.hpp"
#include "tests/support/tiny_llama.hpp"

namespace troupe::sim {
namespace {

stage make_stage(const settings& options) {
  const test::temporary_file file{test::tiny_llama_bytes()};
  stage out;
  out.model = gpu::load_model(file.path());
  const auto names = options.scenarios.empty()
                         ? std::vector<std::string>{"one", "two", "many", "parking"}
                         : options.scenarios;
  for (const auto& name : names)
    for (auto& one : variants_of(name, out.model->vocabulary))
      if (!options.variant || one.variant == *options.variant)
        out.scenarios.push_back(std::move(one));
  if (out.scenarios.empty())
    throw std::invalid_argument("--variant: the scenario has no such variant");
  return out;
}

void check_names_one_run(const settings& options) {
  if (options.scenarios.size() != 1) throw std::invalid_argument("one run needs one --scenario");
  if (options.trace && !options.variant) throw std::invalid_argument("--trace needs --variant");
}

/// One run, with its story.
int replay_one(const settings& options, const stage& on) {
  check_names_one_run(options);
  coordinator_config config;
  const auto index =
      options.variant ? 0 : static_cast<std::uint32_t>(*options.seed % on.scenarios.size());
  chooser choices = options.trace ? chooser(from_text(*options.trace)) : chooser(*options.seed);
  const auto run = play(config, on, index, choices, true);
  print_story(options, on.scenarios[index], run);
  return run.violation.empty() ? 0 : 1;
}

int report_broken(const settings& options, const stage& on, const finding& found,
                  std::uint64_t runs) {
  coordinator_config config;
  print_broken(options, on, found, confirm_and_shorten(config, on, found), runs);
  return 1;
}

int run_plan(const settings& options, const stage& on, std::uint64_t first_seed) {
  const auto begun = std::chrono::steady_clock::now();
  const auto groups = plan_of(options, on, first_seed);
  std::vector<task> tasks;
  for (const auto& one : groups) tasks.insert(tasks.end(), one.tasks.begin(), one.tasks.end());
  auto done = explore_all(on, tasks, options.jobs);
  std::vector<row> rows;
  std::optional<finding> broken;
  bool reached = true;
  tally all;
  std::size_t at = 0;
  for (const auto& one : groups) {
    row sum{&one, {}};
    for (std::size_t i = 0; i < one.tasks.size(); ++i) sum.total.add(std::move(done[at++]));
    if (!broken) broken = sum.total.broken;
    reached = reached && sum.total.runs >= one.floor;
    rows.push_back(std::move(sum));
    all.runs += rows.back().total.runs;
    all.fault_kinds |= rows.back().total.fault_kinds;
    all.preemptions += rows.back().total.preemptions;
    all.parks += rows.back().total.parks;
  }
  const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - begun;
  if (broken) return report_broken(options, on, *broken, all.runs);
  print_report(options, rows, spent.count());
  const auto missed =
      reached ? missed_floors(options, all) : std::string("a plan ended before its floor");
  if (!missed.empty()) std::fprintf(stderr, "FLOOR MISSED: %s\n", missed.c_str());
  return missed.empty() ? 0 : 1;
}

int main_of(const settings& options) {
  const auto on = make_stage(options);
  const auto first = options.seed        ? *options.seed
                     : options.seed_text ? seed_of_text(*options.seed_text)
                                         : 1;
  if (options.trace || (options.seed && options.runs == 0 && !options.until_failure))
    return replay_one(options, on);
  if (!options.until_failure) return run_plan(options, on, first);
  for (std::uint64_t seed = first;; seed += 10'000) {
    auto part = options;
    part.runs = 10'000;
    if (const auto code = run_plan(part, on, seed); code != 0) return code;
  }
}

}  // namespace
}  // namespace troupe::sim

int main(int argc, char** argv) {
  try {
    return troupe::sim::main_of(troupe::sim::read_settings(argc, argv));
  } catch (const std::exception& e) {
    std::fprintf(stderr, "troupe-simulate: %s\n", e.what());
    return 2;
  }
}
