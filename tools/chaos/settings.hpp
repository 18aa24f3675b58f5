// What one run was asked to do: the command line as a plain struct, with the presets of known
// servers filled in.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/chaos/kill_matrix.hpp"
#include "tools/client/metrics_page.hpp"

namespace troupe::chaos {

using api_client::metric_names;

struct settings {
  std::string url;    // of a server that runs, or
  std::string serve;  // the command that starts one
  std::string target = "troupe", api_key, model;
  bool json = false;

  std::uint64_t kills = 2000, seed = 1;
  std::uint32_t wave = 24, neighbours = 3;
  std::optional<std::uint32_t>
      rear;  // clients of a wave that start when the neighbours are through
  std::vector<transport> transports;
  std::vector<manner> manners;
  strides by{7, 1, 9};
  std::uint32_t max_tokens = 12, neighbour_tokens = 32, silence_tokens = 256, prompt_words = 40,
                spread_ms = 150;

  std::uint32_t poll_ms = 2, wave_timeout_s = 120;
  std::optional<std::uint32_t> idle_timeout_s;
  double max_step_ms = 100;             // the least that counts as one step
  std::optional<double> idle_limit_ms;  // otherwise one step and 50 ms
  metric_names metrics;

  std::uint32_t block_size = 16, context = 0, pool_tokens = 0;  // 0: from the server
  std::optional<std::uint32_t> pool_request_every;  // waves; otherwise by the pool's size
  std::uint32_t pool_timeout_s = 180;

  int rss_pid = 0;
  std::uint64_t rss_after = 200, pool_bytes = 0;
  double rss_limit = 1.02;
};

/// Parses the command line. Returns an exit code where there is nothing to run: 0 after --help, 2
/// for a mistake.
std::optional<int> parse(int argc, char** argv, settings&);

}  // namespace troupe::chaos
