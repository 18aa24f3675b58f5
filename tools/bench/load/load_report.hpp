// From the records of a load to its figures: words, JSON and the plot's curves. Pure.
#pragma once
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tools/bench/build_facts.hpp"
#include "tools/bench/load/cdf_plot.hpp"
#include "tools/bench/load/distribution.hpp"
#include "tools/bench/load/load_client.hpp"
#include "tools/bench/load/load_plan.hpp"

namespace troupe {

struct load_result {
  load_options options;
  run_facts facts;
  std::vector<load_record> records;
  double elapsed_s = 0;      ///< first request sent to last one over
  double own_cpu_s = 0;      ///< of this process in that time
  bool ignored_eos = false;  ///< the server took the field
};

/// Latencies are those of whole answers read at full speed: neither the cancelled nor the slow
/// readers' nor the failed ones'.
struct load_figures {
  std::size_t sent = 0, whole = 0, slow = 0, cancelled = 0, failed = 0;
  std::size_t within_slo = 0;                 ///< of `whole`
  std::map<std::string, std::size_t> errors;  ///< by kind; a slow reader's begin with "slow_"
  std::string first_error;
  std::uint64_t prompt_tokens = 0, output_tokens = 0;
  /// Milliseconds from the request's arrival: to the first piece, per token after it, between
  /// pieces, to the end.
  std::vector<double> ttft, tpot, inter_token, e2e;
};

load_figures figures_of(const load_result&);
nlohmann::ordered_json to_json(const load_result&, const load_figures&);
std::string to_words(const load_result&, const load_figures&);
std::vector<cdf_panel> panels_of(const load_figures&);

}  // namespace troupe
