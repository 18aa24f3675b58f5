#include "tests/sim/shells/program/program.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>

namespace troupe::sim {
namespace {

using json = nlohmann::json;

bool of_name(const stage& on, std::uint32_t index, const std::string& name) {
  return on.scenarios[index].name == name;
}

std::vector<std::uint32_t> indices_of(const stage& on, const std::string& name) {
  std::vector<std::uint32_t> out;
  for (std::uint32_t i = 0; i < on.scenarios.size(); ++i)
    if (of_name(on, i, name)) out.push_back(i);
  return out;
}

std::vector<std::string> names_of(const stage& on) {
  std::vector<std::string> out;
  for (const auto& x : on.scenarios)
    if (std::find(out.begin(), out.end(), x.name) == out.end()) out.push_back(x.name);
  return out;
}

/// Seeds first, first + 1, ...: each plays the variant that is its remainder. Cut into tasks of a
/// thousand.
group by_seed(const stage& on, const std::string& name, std::uint64_t first, std::uint64_t runs) {
  group out{name + ", by seed", "seeds " + std::to_string(first) + " and up", {}, runs};
  const auto variants = indices_of(on, name);
  const std::uint64_t count = variants.size();
  for (std::uint64_t at = first; at < first + runs; ++at) {
    if (at - first >= count && (at - first) / count % 1000 != 0) continue;
    const auto left = (first + runs - at + count - 1) / count;
    task one;
    one.scenario = variants[at % count];
    one.first_seed = at;
    one.stride = count;
    one.runs = std::min<std::uint64_t>(left, 1000);
    out.tasks.push_back(one);
  }
  return out;
}

group enumerated(const stage& on, std::uint32_t index, std::optional<std::uint32_t> bound,
                 std::uint64_t cap) {
  const auto& of = on.scenarios[index];
  const auto limit = bound.value_or(of.bound > 0 ? of.bound : unbounded);
  task one;
  one.scenario = index;
  one.enumerate = true;
  one.bound = limit;
  one.runs = cap;
  const auto order = limit >= unbounded ? std::string("every order")
                                        : "at most " + std::to_string(limit) + " deviations";
  return {of.name + " " + std::to_string(of.variant) + ": " + of.what,
          order + ", at most " + std::to_string(of.fault_budget) + " disturbances",
          {one},
          0};
}

std::string command_of(const scenario& of, const trace& taken) {
  return "troupe-simulate --scenario " + of.name + " --variant " + std::to_string(of.variant) +
         " --trace " + to_text(taken);
}

std::vector<std::string> fault_names(faults set) {
  std::vector<std::string> out;
  for (unsigned f = 0; f < static_cast<unsigned>(fault::count); ++f)
    if (set & (1u << f)) out.emplace_back(name_of(static_cast<fault>(f)));
  return out;
}

/// Seeds first: they find most of what there is to find within a few thousand runs.
std::vector<group> plan_of_ci(const settings& options, const stage& on, std::uint64_t first_seed) {
  std::vector<group> out;
  for (const auto& name : names_of(on)) {
    const std::uint64_t share = name == "one"    ? 4'000
                                : name == "two"  ? 30'000
                                : name == "many" ? 5'000
                                                 : 12'000;
    out.push_back(by_seed(on, name, 1, share));
    if (options.seed_text) out.push_back(by_seed(on, name, first_seed, share / 4));
  }
  for (std::uint32_t i = 0; i < on.scenarios.size(); ++i) {
    const auto& name = on.scenarios[i].name;
    if (name != "many") out.push_back(enumerated(on, i, options.bound, ~std::uint64_t{0}));
  }
  return out;
}

}  // namespace

settings read_settings(int argc, char** argv) {
  settings out;
  CLI::App app{
      "Plays Troupe's real actors under a scheduler that chooses every order of their messages."};
  app.add_option("--scenario", out.scenarios,
                 "one, two, many, parking; may be repeated (default: all)");
  app.add_option("--variant", out.variant, "one variant of the scenario");
  app.add_option(
      "--seed", out.seed,
      "one run by this seed, with its story; with --runs or --until-failure: the first seed");
  app.add_option("--seed-text", out.seed_text,
                 "the first seed is made from this text, such as a commit's hash");
  app.add_option("--trace", out.trace,
                 "one run by these choices (point:choice/choices,... or 'oldest'), with its story");
  app.add_option(
      "--runs", out.runs,
      "number of runs by seed of each scenario; with --exhaustive: the most runs of each variant");
  app.add_flag("--until-failure", out.until_failure,
               "runs seed after seed until a run breaks a rule");
  app.add_flag("--exhaustive", out.exhaustive, "all runs within the bound instead of seeds");
  app.add_option(
      "--bound", out.bound,
      "deviations from the oldest message first; 10000: no bound (default: the variant's)");
  app.add_flag("--ci", out.ci, "the plan of continuous integration, with its floors");
  app.add_flag("--quick", out.quick, "a plan of a few seconds");
  app.add_option("--jobs", out.jobs, "threads")->check(CLI::Range(1u, 256u));
  app.add_flag("--json", out.json, "one JSON object instead of a report");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    std::exit(app.exit(e));
  }
  return out;
}

std::vector<group> plan_of(const settings& options, const stage& on, std::uint64_t first_seed) {
  if (options.ci) return plan_of_ci(options, on, first_seed);
  std::vector<group> out;
  const auto all = [&](const std::string& name, std::optional<std::uint32_t> bound,
                       std::uint64_t cap) {
    for (const auto i : indices_of(on, name)) out.push_back(enumerated(on, i, bound, cap));
  };
  for (const auto& name : names_of(on)) {
    const bool is_many = name == "many";
    if (options.quick) {
      if (!is_many) all(name, options.bound ? options.bound : std::optional(1u), 400);
      out.push_back(by_seed(on, name, first_seed, is_many ? 100 : 300));
    } else if (options.exhaustive) {
      all(name, options.bound, options.runs > 0 ? options.runs : ~std::uint64_t{0});
    } else {
      out.push_back(by_seed(on, name, first_seed, options.runs > 0 ? options.runs : 10'000));
    }
  }
  return out;
}

std::uint64_t seed_of_text(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  return hash >> 20;  // short enough to type
}

std::string missed_floors(const settings& options, const tally& sum) {
  constexpr std::uint64_t runs_of_ci = 200'000;
  if (!options.ci || !options.scenarios.empty()) return {};
  if (sum.runs < runs_of_ci)
    return std::to_string(sum.runs) + " runs, the floor is " + std::to_string(runs_of_ci);
  if (sum.fault_kinds != bit(fault::count) - 1) return "not every kind of disturbance was met";
  if (sum.preemptions == 0 || sum.parks == 0) return "no request was preempted, or none was parked";
  return {};
}

void print_report(const settings& options, const std::vector<row>& rows, double seconds) {
  tally sum;
  json lines = json::array();
  for (const auto& [what, total] : rows) {
    if (options.json)
      lines.push_back({{"plan", what->name},
                       {"bounds", what->bounds},
                       {"runs", total.runs},
                       {"distinct", total.distinct.size()},
                       {"complete", total.complete},
                       {"choice_points_max", total.longest},
                       {"floor", what->floor}});
    else
      std::printf("%-9llu runs, %9zu distinct, up to %4u choices%s  %s (%s)\n",
                  static_cast<unsigned long long>(total.runs), total.distinct.size(), total.longest,
                  total.complete ? "" : ", CUT", what->name.c_str(), what->bounds.c_str());
    auto copy = total;
    copy.broken.reset();
    sum.add(std::move(copy));
  }
  std::size_t distinct = 0;
  for (const auto& one : rows) distinct += one.total.distinct.size();
  if (options.json) {
    std::cout << json{{"runs", sum.runs},
                      {"distinct", distinct},
                      {"messages", sum.handled},
                      {"disturbances", sum.disturbances},
                      {"preemptions", sum.preemptions},
                      {"parked", sum.parks},
                      {"seconds", seconds},
                      {"runs_per_second", static_cast<double>(sum.runs) / seconds},
                      {"threads", options.jobs},
                      {"disturbance_kinds", fault_names(sum.fault_kinds)},
                      {"plans", lines}}
                     .dump()
              << "\n";
    return;
  }
  std::printf(
      "%llu runs in %.1f s (%.0f a second on %u threads), %zu distinct, %llu messages, %llu "
      "disturbances, "
      "%llu preemptions, %llu of them parked\ndisturbances met:",
      static_cast<unsigned long long>(sum.runs), seconds, static_cast<double>(sum.runs) / seconds,
      options.jobs, distinct, static_cast<unsigned long long>(sum.handled),
      static_cast<unsigned long long>(sum.disturbances),
      static_cast<unsigned long long>(sum.preemptions + sum.parks),
      static_cast<unsigned long long>(sum.parks));
  for (const auto& name : fault_names(sum.fault_kinds)) std::printf(" [%s]", name.c_str());
  std::printf("\n");
}

void print_story(const settings& options, const scenario& of, const outcome& run) {
  if (options.json) {
    std::cout << json{{"scenario", of.name},         {"variant", of.variant},
                      {"violation", run.violation},  {"story", run.story},
                      {"trace", to_text(run.taken)}, {"replay", command_of(of, run.taken)}}
                     .dump()
              << "\n";
    return;
  }
  std::printf("scenario %s, variant %u: %s\n", of.name.c_str(), of.variant, of.what.c_str());
  for (std::size_t i = 0; i < run.story.size(); ++i)
    std::printf("%4zu  %s\n", i + 1, run.story[i].c_str());
  std::printf("%s\n", run.violation.empty() ? "sound" : ("VIOLATION: " + run.violation).c_str());
}

void print_broken(const settings& options, const stage& on, const finding& found,
                  const outcome& shortened, std::uint64_t runs) {
  const auto& of = on.scenarios[found.scenario];
  if (options.json) {
    std::cout << json{{"scenario", of.name},
                      {"variant", of.variant},
                      {"violation", shortened.violation},
                      {"found_as", found.run.violation},
                      {"found_after_runs", runs},
                      {"story", shortened.story},
                      {"replay", command_of(of, shortened.taken)}}
                     .dump()
              << "\n";
    return;
  }
  print_story(options, of, shortened);
  std::printf("found after %llu runs", static_cast<unsigned long long>(runs));
  if (found.seed)
    std::printf("; as it was found: troupe-simulate --scenario %s --seed %llu", of.name.c_str(),
                static_cast<unsigned long long>(*found.seed));
  std::printf("\nreplay (shortened from %u to %u deviations):\n  %s\n", deviations(found.run.taken),
              deviations(shortened.taken), command_of(of, shortened.taken).c_str());
}

}  // namespace troupe::sim
