#include "tests/sim/shells/explore.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>

namespace troupe::sim {
namespace {

tally enumerate(coordinator_config& config, const stage& on, const task& what,
                const std::atomic<bool>& stop_early) {
  tally out;
  std::optional<trace> script{trace{}};
  while (script && out.runs < what.runs && !stop_early) {
    chooser choices(std::move(*script));
    auto run = play(config, on, what.scenario, choices, false);
    out.add(run);
    script = next_script(run.taken, what.bound);
    if (!run.violation.empty()) {
      out.broken = finding{what.scenario, std::nullopt, std::move(run)};
      break;
    }
  }
  out.complete = !script;
  return out;
}

tally sample(coordinator_config& config, const stage& on, const task& what,
             const std::atomic<bool>& stop_early) {
  tally out;
  for (std::uint64_t i = 0; i < what.runs && !stop_early; ++i) {
    const auto seed = what.first_seed + i * what.stride;
    chooser choices(seed);
    auto run = play(config, on, what.scenario, choices, false);
    out.add(run);
    if (!run.violation.empty()) {
      out.broken = finding{what.scenario, seed, std::move(run)};
      break;
    }
  }
  return out;
}

}  // namespace

void tally::add(const outcome& run) {
  ++runs;
  handled += run.handled;
  disturbances += run.disturbances;
  preemptions += run.preemptions;
  parks += run.parks;
  fault_kinds |= run.fault_kinds;
  longest = std::max(longest, static_cast<std::uint32_t>(run.taken.size()));
  distinct.insert(hash_of(run.taken));
}

void tally::add(tally&& other) {
  runs += other.runs;
  handled += other.handled;
  disturbances += other.disturbances;
  preemptions += other.preemptions;
  parks += other.parks;
  fault_kinds |= other.fault_kinds;
  longest = std::max(longest, other.longest);
  complete = complete && other.complete;
  distinct.merge(other.distinct);
  if (!broken) broken = std::move(other.broken);
}

outcome play(coordinator_config& config, const stage& on, std::uint32_t scenario, chooser& choices,
             bool keep_story) {
  world one(config, on.scenarios.at(scenario), on.model, choices, keep_story);
  return one.run();
}

tally explore(coordinator_config& config, const stage& on, const task& what,
              const std::atomic<bool>& stop_early) {
  return what.enumerate ? enumerate(config, on, what, stop_early)
                        : sample(config, on, what, stop_early);
}

std::vector<tally> explore_all(const stage& on, const std::vector<task>& tasks, unsigned threads) {
  std::vector<tally> out(tasks.size());
  std::atomic<std::size_t> next{0};
  std::atomic<bool> stop_early{false};
  std::mutex mutex;
  std::exception_ptr failed;
  const auto work = [&] {
    coordinator_config config;
    try {
      for (;;) {
        const auto mine = next++;
        if (mine >= tasks.size() || stop_early) return;
        out[mine] = explore(config, on, tasks[mine], stop_early);
        if (out[mine].broken) stop_early = true;
      }
    } catch (...) {
      stop_early = true;
      const std::lock_guard lock(mutex);
      if (!failed) failed = std::current_exception();
    }
  };
  std::vector<std::thread> others;
  for (unsigned i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  for (auto& one : others) one.join();
  if (failed) std::rethrow_exception(failed);
  return out;
}

outcome confirm_and_shorten(coordinator_config& config, const stage& on, const finding& found) {
  const auto again = [&](const trace& script, bool strict, bool keep_story) {
    chooser choices(script, strict);
    return play(config, on, found.scenario, choices, keep_story);
  };
  auto best = again(found.run.taken, true, false);
  if (best.taken != found.run.taken || best.violation != found.run.violation)
    throw divergence("replay diverged: the run gave '" + found.run.violation + "', its replay '" +
                     best.violation + "'");
  for (bool shorter = true; shorter;) {
    shorter = false;
    for (std::size_t i = best.taken.size(); i-- > 0;) {
      if (i >= best.taken.size() || best.taken[i].taken == 0) continue;
      auto script = best.taken;
      script[i].taken = 0;
      auto tried = again(script, false, false);
      if (tried.violation != best.violation || deviations(tried.taken) >= deviations(best.taken))
        continue;
      best = std::move(tried);
      shorter = true;
    }
  }
  return again(best.taken, true, true);
}

}  // namespace troupe::sim
