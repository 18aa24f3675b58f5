// Visits every reachable state of small worlds made of the real machines; see README.md beside it.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdio>
#include <exception>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/sim/explorer/explore.hpp"

using namespace troupe::core;
using namespace troupe::core::sim;
using nlohmann::json;

namespace {

struct totals {
  std::uint64_t states = 0, transitions = 0;
  std::size_t cells = 0, pairs = 0;
  bool complete = true, sound = true;
};

json cells_of(const cell_counts& cells) {
  json out = json::object();
  for (int s = 0; s < request_state_count; ++s)
    for (int c = 0; c < column_count; ++c)
      if (const auto n = cells[s][c]; n > 0)
        out[name_of(static_cast<request_state>(s))][name_of(static_cast<column>(c))] = n;
  return out;
}

json to_json(const report& r) {
  json out{{"scenario", r.scenario}, {"states", r.states},           {"transitions", r.transitions},
           {"ends", r.ends},         {"depth", r.depth_max},         {"seconds", r.seconds},
           {"complete", r.complete}, {"fault_pairs", r.pairs.size()}};
  if (!r.broken.empty()) {
    out["broken"] = r.broken;
    out["replay"] = "troupe-explore --scenario " + r.scenario + " --replay " + text_of(r.path);
  }
  return out;
}

void print(const report& r) {
  std::printf("%-12s %12llu states %13llu transitions %9llu ends, depth %3zu, %7.1f s%s\n",
              r.scenario.c_str(), static_cast<unsigned long long>(r.states),
              static_cast<unsigned long long>(r.transitions),
              static_cast<unsigned long long>(r.ends), r.depth_max, r.seconds,
              r.complete ? "" : "  (bounded)");
  if (r.broken.empty()) return;
  std::printf("BROKEN in %s: %s\nreplay with: troupe-explore --scenario %s --replay %s\n",
              r.scenario.c_str(), r.broken.c_str(), r.scenario.c_str(), text_of(r.path).c_str());
}

std::vector<report> explore_all(const std::vector<scenario>& scenes, const bounds& limit,
                                unsigned jobs, bool lively) {
  std::vector<report> reports(scenes.size());
  std::atomic<std::size_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex printing;
  const auto work = [&] {
    for (std::size_t i; !failed && (i = next++) < scenes.size();) {
      const auto tell = [&](const report& r) {
        const std::lock_guard lock(printing);
        std::fprintf(stderr, "\r%s: %llu transitions, %.0f s ", r.scenario.c_str(),
                     static_cast<unsigned long long>(r.transitions), r.seconds);
      };
      reports[i] =
          explore(scenes[i], limit, lively ? std::function<void(const report&)>(tell) : nullptr);
      if (!reports[i].broken.empty()) failed = true;
    }
  };
  std::vector<std::thread> threads;
  for (unsigned j = 0; j < jobs; ++j) threads.emplace_back(work);
  for (auto& t : threads) t.join();
  if (lively) std::fprintf(stderr, "\n");
  return reports;
}

}  // namespace

int main(int argc, char** argv) try {
  CLI::App app{"Explores every reachable state of small worlds made of the real machines."};
  std::string preset = "quick", one, path;
  bounds limit;
  unsigned jobs = std::max(1u, std::thread::hardware_concurrency());
  std::uint64_t transitions_min = 0;
  std::size_t cells_min = 0, pairs_min = 0;
  bool as_json = isatty(1) == 0;
  app.add_option("--preset", preset, "quick, ci or nightly");
  app.add_option("--scenario", one, "one scenario instead, e.g. parking-2 (two faults)");
  app.add_option("--replay", path, "prints the messages of a run of that scenario");
  app.add_option("--limit", limit.transitions_max, "transitions of one scenario; 0 = no limit");
  app.add_option("--states-max", limit.states_max, "states kept of one scenario");
  app.add_option("--jobs", jobs, "scenarios at a time");
  app.add_option("--floor-transitions", transitions_min, "fail below so many in total");
  app.add_option("--floor-cells", cells_min, "fail below so many state x event cells");
  app.add_option("--floor-pairs", pairs_min, "fail below so many pairs of fault kinds in one run");
  app.add_flag("--json", as_json, "JSON also on a terminal");
  CLI11_PARSE(app, argc, argv);

  if (!path.empty()) {
    bool sound = true;
    for (const auto& line : replay(scenario_named(one), path_of(path))) {
      std::puts(line.c_str());
      sound = sound && line.rfind("BROKEN", 0) != 0;
    }
    return sound ? 0 : 1;
  }
  const auto scenes =
      one.empty() ? scenarios_of(preset) : std::vector<scenario>{scenario_named(one)};
  const auto reports = explore_all(scenes, limit, std::max(1u, jobs), isatty(2) == 1);

  totals sum;
  cell_counts cells{};
  std::set<std::pair<fault, fault>> pairs;
  for (const auto& r : reports) {
    sum.states += r.states;
    sum.transitions += r.transitions;
    sum.complete = sum.complete && r.complete;
    sum.sound = sum.sound && r.broken.empty();
    pairs.insert(r.pairs.begin(), r.pairs.end());
    for (int s = 0; s < request_state_count; ++s)
      for (int c = 0; c < column_count; ++c) cells[s][c] += r.cells[s][c];
  }
  for (const auto& row : cells)
    for (const auto n : row) sum.cells += n > 0 ? 1 : 0;
  sum.pairs = pairs.size();
  const bool enough =
      sum.transitions >= transitions_min && sum.cells >= cells_min && sum.pairs >= pairs_min;

  if (as_json) {
    json out{{"states", sum.states},
             {"transitions", sum.transitions},
             {"complete", sum.complete},
             {"cells", sum.cells},
             {"fault_pairs", sum.pairs},
             {"visited", cells_of(cells)},
             {"floors",
              {{"transitions", transitions_min}, {"cells", cells_min}, {"fault_pairs", pairs_min}}},
             {"passed", sum.sound && enough}};
    for (const auto& r : reports) out["scenarios"].push_back(to_json(r));
    std::puts(out.dump(1).c_str());
  } else {
    for (const auto& r : reports) print(r);
    std::printf(
        "%llu states, %llu transitions, %zu cells of the state x event table, %zu pairs of fault "
        "kinds: %s\n",
        static_cast<unsigned long long>(sum.states),
        static_cast<unsigned long long>(sum.transitions), sum.cells, sum.pairs,
        sum.sound ? (enough ? "sound" : "sound, but below a floor") : "BROKEN");
  }
  return sum.sound && enough ? 0 : 1;
} catch (const std::exception& e) {
  std::fprintf(stderr, "troupe-explore: %s\n", e.what());
  return 2;
}
