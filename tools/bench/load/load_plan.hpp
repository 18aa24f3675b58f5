// What the load generator asks of a server: how many, how often, how long, who leaves early, who
// reads slowly. Pure: the same seed gives the same requests on every machine. Knows no socket and
// no clock.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace troupe {

struct load_options {
  std::string url;                       ///< http://host[:port][/base]
  std::string endpoint = "completions";  ///< or "chat"
  std::string model;                     ///< empty: the first that the server lists
  std::string api_key;
  std::uint32_t clients =
      16;           ///< closed loop: each sends its next request when its last one is over
  double rate = 0;  ///< > 0: open loop, requests a second on average, whoever is still waiting
  std::uint32_t requests = 64;
  double duration_s = 0;  ///< > 0: as many requests as begin within this time instead
  std::uint32_t words_min = 60, words_max = 60;
  std::uint32_t tokens_min = 64, tokens_max = 64;  ///< of an answer; each request asks for its own
  double cancel_share = 0;  ///< of the requests; killed by FIN or RST before its answer is whole
  double slow_share = 0;    ///< of the requests
  std::uint32_t slow_bytes_per_s = 2000;  ///< what a slow reader takes off its socket
  bool ignore_eos = true;                 ///< dropped by itself for servers that refuse the field
  double slo_ttft_ms = 1000, slo_tpot_ms = 100;
  double timeout_s = 300;  ///< of one request
  std::uint64_t seed = 1;
  std::string json_file, plot_file;  ///< empty: none; "-" as json_file: the standard output
};

/// "60" or "20:200". Throws std::invalid_argument with the option's name.
void read_range(const std::string& option, const std::string& text, std::uint32_t& low,
                std::uint32_t& high);

struct planned_request {
  std::string prompt;
  std::uint32_t max_tokens = 0;
  std::optional<std::uint32_t>
      cancel_after;    ///< pieces of text read before the client leaves; 0: at once
  bool reset = false;  ///< leaves by RST, else by FIN
  bool slow = false;
};

/// Request number `number` of this load.
planned_request plan_request(const load_options&, std::uint64_t number);

/// Seconds between request `number` and the next, exponentially distributed (Poisson arrivals) with
/// mean 1 / rate.
double arrival_gap_s(double rate, std::uint64_t seed, std::uint64_t number);

/// The JSON body of a request.
std::string request_body(const load_options&, const std::string& prompt, std::uint32_t max_tokens,
                         bool stream_usage, bool ignore_eos);

}  // namespace troupe
