#include "tests/sim/explorer/scenario.hpp"

#include <stdexcept>

namespace troupe::core::sim {

namespace {

// Blocks of two tokens, so that a few tokens fill and share them; the time limit of a step never
// binds.
scheduler_limits small(std::uint32_t blocks) {
  scheduler_limits l;
  l.block_size = 2;
  l.num_blocks = blocks;
  l.max_num_seqs = 3;
  l.max_num_batched_tokens = 8;
  l.max_step_us = 1'000'000'000'000;
  l.max_num_queued_reqs = 8;
  l.model_context = 2 * blocks;
  l.end_tokens = {0};
  l.vocab = 32;
  l.prefix_caching = false;
  l.move_chunk_blocks = 1;
  l.move_limit_us = 1'000'000;
  l.stall_limit_us = 1'000'000;
  return l;
}

client_script asks(std::vector<token_id> prompt, std::uint32_t tokens, bool deadline = false) {
  client_script c;
  c.prompt = std::move(prompt);
  c.max_tokens = tokens;
  c.deadline = deadline;
  return c;
}

scenario roomy() {
  scenario s;
  s.name = "roomy";
  s.about = "two requests of three tokens, room for both";
  s.clients = {asks({3, 4, 5}, 3, true), asks({6, 7}, 3)};
  s.limits = small(8);
  return s;
}

// Growth is asked one block at a time, so a new request can be admitted between two of them, and
// then one of the two must be preempted.
scenario tight() {
  scenario s;
  s.name = "tight";
  s.about = "two requests of four tokens, a block too few: denials and preemption by recompute";
  s.clients = {asks({3}, 4, true), asks({6}, 4)};
  s.limits = small(6);
  s.limits.block_size = 1;
  return s;
}

scenario parking() {
  auto s = tight();
  s.name = "parking";
  s.about = "the same with a host tier: moves of several chunks, failed, corrupt and late ones";
  s.limits.park = true;
  s.host_blocks = 4;
  return s;
}

scenario full_host() {
  auto s = parking();
  s.name = "full_host";
  s.about = "the same with a host tier that has no room";
  s.host_blocks = 1;
  return s;
}

scenario shared() {
  scenario s;
  s.name = "shared";
  s.about =
      "two requests of three tokens with the same beginning: hits, eviction, blocks "
      "forgotten when a client leaves";
  s.clients = {asks({3, 4, 5}, 3), asks({3, 4, 5, 1}, 3)};
  s.clients[1].keep_prefix = true;
  s.limits = small(5);
  s.limits.prefix_caching = true;
  return s;
}

scenario slow() {
  scenario s;
  s.name = "slow";
  s.about =
      "two requests of three tokens, readers that stall at one byte: pause, resume, preemption";
  s.clients = {asks({3, 4, 5}, 3), asks({6, 7, 8}, 3)};
  s.limits = small(5);
  s.outbound_bytes_max = 0;
  s.faults =
      bit(fault::stall) | bit(fault::time_passes) | bit(fault::disconnect) | bit(fault::crash);
  return s;
}

scenario stops() {
  scenario s;
  s.name = "stops";
  s.about =
      "a stop string completed by the session while the scheduler goes on, beside another request";
  s.clients = {asks({3, 4}, 3), asks({6, 7}, 3)};
  s.clients[0].stop = {"b", "c", "d", "e", "f"};
  s.limits = small(8);
  return s;
}

scenario three() {
  scenario s;
  s.name = "three";
  s.about = "three requests of two tokens, two seats";
  s.clients = {asks({3, 4}, 2), asks({6, 7}, 2), asks({8}, 2)};
  s.limits = small(6);
  s.limits.max_num_seqs = 2;
  return s;
}

// Long prompts and one place: who reads, who waits for the place, who learns on the way that its
// prompt is too long; the scheduler runs the first while the others read.
scenario reading() {
  scenario s;
  s.name = "reading";
  s.about = "three prompts of several slices, one place to read, a deadline, one prompt too long";
  s.clients = {asks({3, 4, 5}, 1, true), asks({6, 7}, 1), asks({8}, 1)};
  s.clients[0].slices = 3;
  s.clients[1].slices = 2;
  s.clients[2].slices = 4;
  s.clients[2].tokens_per_slice = 6;
  s.limits = small(6);
  return s;
}

// Blocks of two tokens and a prompt of three: one block is shared, one is copied. A block too few
// for both answers to their end, so forks are denied and forked requests preempted.
scenario group() {
  scenario s;
  s.name = "group";
  s.about = "two answers of three tokens to one prompt: forks, copies, leaders that end early";
  s.clients = {asks({3, 4, 5}, 3, true), asks({3, 4, 5}, 3, true)};
  s.clients[1].tail_of = 0;
  s.clients[1].seed = 1;
  s.limits = small(4);
  s.limits.max_num_batched_tokens = 2;  // the prompt takes two steps
  return s;
}

// Two layer groups, the second of which looks back over two tokens: its blocks go back while the
// first keeps its own, also of what is parked, forked and found in the cache.
scenario windowed() {
  auto s = parking();
  s.name = "windowed";
  s.about = "two layer groups, one with a window of two tokens: blocks trimmed, moved, denied";
  s.clients = {asks({3}, 3, true), asks({6}, 3)};
  s.limits = small(4);
  s.limits.block_size = 1;
  s.limits.windows = {0, 2};
  s.limits.park = true;
  s.limits.move_chunk_blocks = 4;
  s.host_blocks = 8;
  return s;
}

scenario windowed_shared() {
  auto s = shared();
  s.name = "windowed_shared";
  s.about = "the same beginning twice over two layer groups, one with a window of two tokens";
  s.limits.windows = {0, 2};
  return s;
}

scenario windowed_group() {
  auto s = group();
  s.name = "windowed_group";
  s.about = "two answers to one prompt over two layer groups, one with a window of two tokens";
  s.limits.windows = {0, 2};
  return s;
}

std::vector<scenario> all_scenarios() {
  return {roomy(), tight(),   parking(), full_host(), shared(),          slow(),          stops(),
          three(), reading(), group(),   windowed(),  windowed_shared(), windowed_group()};
}

scenario with(scenario s, const char* suffix, std::uint32_t faults_max, std::uint32_t kinds = 0) {
  s.name += suffix;
  s.faults_max = faults_max;
  if (kinds) s.faults &= kinds;
  return s;
}

}  // namespace

std::vector<scenario> scenarios_of(const std::string& preset) {
  if (preset == "quick")
    return {with(roomy(), "-0", 0), with(parking(), "-0", 0), with(shared(), "-0", 0)};
  if (preset != "ci" && preset != "nightly")
    throw std::invalid_argument("--preset: \"" + preset + "\" is none of quick, ci, nightly");
  std::vector<scenario> all;
  if (preset == "ci") {
    for (auto& s : all_scenarios()) all.push_back(with(std::move(s), "-1", 1));
    for (auto s : {roomy(), parking()}) {  // pairs of faults: as far as the time for it goes
      all.push_back(with(std::move(s), "-2", 2));
      all.back().transitions_max = 5'000'000;
    }
  } else {
    for (auto& s : all_scenarios()) all.push_back(with(std::move(s), "-3", 3));
  }
  return all;
}

std::vector<std::string> scenario_names() {
  std::vector<std::string> names;
  for (const auto& s : all_scenarios())
    for (int faults = 0; faults <= 3; ++faults)
      names.push_back(s.name + "-" + std::to_string(faults));
  return names;
}

scenario scenario_named(const std::string& name) {
  for (const auto& s : all_scenarios())
    for (std::uint32_t faults = 0; faults <= 3; ++faults)
      if (auto x = with(s, ("-" + std::to_string(faults)).c_str(), faults); x.name == name)
        return x;
  std::string all;
  for (const auto& n : scenario_names()) all += (all.empty() ? "" : ", ") + n;
  throw std::invalid_argument("--scenario: \"" + name + "\" is none of " + all);
}

}  // namespace troupe::core::sim
