#include <catch2/catch.hpp>

#include "tests/sim/shells/explore.hpp"
#include "tests/support/temporary_file.hpp"
#include "tests/support/tiny_llama.hpp"

using namespace troupe;
using namespace troupe::sim;

namespace {

stage stage_of(const std::string& name) {
  const test::temporary_file file{test::tiny_llama_bytes()};
  stage out;
  out.model = gpu::load_model(file.path());
  out.scenarios = variants_of(name, out.model->vocabulary);
  return out;
}

const std::atomic<bool> never{false};

outcome play_oldest(const stage& on, std::uint32_t scenario) {
  coordinator_config config;
  chooser choices{trace{}};
  return play(config, on, scenario, choices, true);
}

}  // namespace

TEST_CASE(
    "simulator: undisturbed runs in the order of sending are sound, and small pools cause "
    "preemptions",
    "[sim]") {
  for (const auto* name : {"one", "two", "many", "parking"}) {
    const auto on = stage_of(name);
    std::uint64_t preemptions = 0;
    for (std::uint32_t i = 0; i < on.scenarios.size(); ++i) {
      const auto run = play_oldest(on, i);
      INFO(name << " " << i);
      CHECK(run.violation.empty());
      CHECK(run.disturbances == 0);
      CHECK(run.story.size() >
            run.handled);  // the first and the last messages are delivered without a choice
      preemptions += run.preemptions + run.parks;
    }
    if (std::string(name) == "two" || std::string(name) == "parking") CHECK(preemptions > 0);
  }
}

TEST_CASE("simulator: the same seed is the same run, message by message", "[sim]") {
  const auto on = stage_of("parking");
  coordinator_config config;
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    chooser first{seed}, second{seed};
    const auto a = play(config, on, 0, first, true), b = play(config, on, 0, second, true);
    CHECK(a.story == b.story);
    CHECK(a.taken == b.taken);
    CHECK(a.taken.size() > 20);
  }
}

TEST_CASE("simulator: a replay that meets another number of choices says so", "[sim]") {
  const auto on = stage_of("two");
  coordinator_config config;
  auto script = play_oldest(on, 0).taken;
  REQUIRE(script.size() > 10);
  ++script[9].of;
  chooser choices{script};
  CHECK_THROWS_AS(play(config, on, 0, choices, false), divergence);
}

TEST_CASE("simulator: a trace is the same after being written and read", "[sim]") {
  const auto on = stage_of("two");
  coordinator_config config;
  chooser choices{std::uint64_t{4}};
  const auto run = play(config, on, 1, choices, true);
  REQUIRE(deviations(run.taken) > 3);
  chooser again{from_text(to_text(run.taken))};
  CHECK(play(config, on, 1, again, true).story == run.story);
  CHECK_THROWS_AS(from_text("3:5/4"), std::invalid_argument);
  CHECK_THROWS_AS(from_text("nonsense"), std::invalid_argument);
  CHECK(from_text("oldest").empty());
}

TEST_CASE("simulator: scripts within a bound are visited once each, and all of them", "[sim]") {
  // Three points of three choices: 1 run without a deviation, 6 with one, 12 with two, 8 with
  // three.
  for (const auto& [bound, runs] :
       {std::pair{0u, 1}, std::pair{1u, 7}, std::pair{2u, 19}, std::pair{3u, 27}}) {
    int count = 0;
    std::unordered_set<std::uint64_t> seen;
    std::optional<trace> script{trace{}};
    while (script) {
      chooser choices(*script);
      for (int i = 0; i < 3; ++i) choices.pick(3, 3);
      ++count;
      seen.insert(hash_of(choices.taken()));
      script = next_script(choices.taken(), bound);
    }
    CHECK(count == runs);
    CHECK(seen.size() == static_cast<std::size_t>(runs));
  }
}

TEST_CASE("simulator: every run of one client with one disturbance or reordering keeps the rules",
          "[sim]") {
  const auto on = stage_of("one");
  coordinator_config config;
  for (std::uint32_t i = 0; i < on.scenarios.size(); ++i) {
    task all;
    all.scenario = i;
    all.enumerate = true;
    all.bound = 1;
    all.runs = 100'000;
    const auto sum = explore(config, on, all, never);
    INFO((sum.broken ? sum.broken->run.violation + " " + to_text(sum.broken->run.taken) : "")
         << " in variant " << i);
    CHECK_FALSE(sum.broken);
    CHECK(sum.complete);
    CHECK(sum.distinct.size() == sum.runs);
    CHECK(sum.runs > 50);
  }
}

TEST_CASE("simulator: seeded runs meet every disturbance and keep the rules", "[sim]") {
  faults met = 0;
  for (const auto* name : {"one", "two", "many", "parking"}) {
    const auto on = stage_of(name);
    coordinator_config config;
    for (std::uint32_t i = 0; i < on.scenarios.size(); ++i) {
      task some;
      some.scenario = i;
      some.runs = std::string(name) == "parking" ? 2000 : 60;  // copies are short
      const auto sum = explore(config, on, some, never);
      INFO((sum.broken ? sum.broken->run.violation + " " + to_text(sum.broken->run.taken) : "")
           << " in " << name << " " << i);
      CHECK_FALSE(sum.broken);
      met |= sum.fault_kinds;
    }
  }
  CHECK(met == bit(fault::count) - 1);
}
