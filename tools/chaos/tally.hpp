// What a run found, as plain numbers: written by the campaign, read by the report. A number that
// the target does not offer stays empty and is reported as not available.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/chaos/kill_matrix.hpp"

namespace troupe::chaos {

struct comparison {
  std::uint64_t compared = 0, different = 0;
};

struct tally {
  std::string url;
  std::uint64_t kills = 0, waves = 0, refused = 0, broken = 0;
  double seconds = 0;
  std::vector<cell> cells;

  std::vector<double> idle_ms;   // one a wave, from its last kill
  double idle_limit_ms = 0;      // of a wave without a longer step
  std::uint64_t late_waves = 0;  // idle later than one step of their own and 50 ms
  std::optional<double> step_p99_ms;

  std::optional<double> blocks_lost, blocks_leaked;
  std::optional<double> tokens_for_nobody;
  double most_tokens_in_flight = 0;  // computed after a last kill, within what was in flight

  comparison neighbours, survivors, pieces;  // pieces: what killed clients had read

  std::uint64_t pool_requests = 0;
  std::uint32_t pool_request_tokens = 0, pool_tokens = 0;
  double pool_request_ms = 0;  // the last one
  std::string pool_note;

  std::optional<double> rss_first, rss_last;
  std::uint64_t pool_bytes = 0;
  std::optional<int> server_exit;

  std::uint64_t failure_count = 0;
  std::vector<std::string> failures;  // the first of them
  void fail(std::string what) {
    ++failure_count;
    if (failures.size() < 20) failures.push_back(std::move(what));
  }
};

}  // namespace troupe::chaos
