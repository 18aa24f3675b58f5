#include "tools/chaos/settings.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>

#include "tools/client/http_request.hpp"

namespace troupe::chaos {
namespace {

const std::map<std::string, metric_names> presets{
    {"troupe",
     {"troupe_num_requests_running", "troupe_num_requests_waiting", "troupe_kv_blocks_used",
      "troupe_kv_blocks_allocated_total", "troupe_kv_blocks_released_total",
      "troupe_kv_leaked_blocks", "troupe_kv_blocks_total", "troupe_step_sequences_sum",
      "troupe_step_seconds"}},
    {"llama-server",
     {"llamacpp:requests_processing", "llamacpp:requests_deferred", "", "", "", "", "",
      "llamacpp:n_decode_total*llamacpp:n_busy_slots_per_decode", ""}},
    {"vllm",
     {"vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc", "", "",
      "", "", "vllm:generation_tokens_total", ""}},
};

struct metric_option {
  const char* name;
  std::string metric_names::*field;
  const char* meaning;
};
constexpr metric_option metric_options[] = {
    {"--metric-running", &metric_names::running, "requests that run"},
    {"--metric-waiting", &metric_names::waiting, "requests that wait"},
    {"--metric-used", &metric_names::used, "KV blocks held by requests (or a share)"},
    {"--metric-allocated", &metric_names::allocated, "KV blocks ever granted"},
    {"--metric-released", &metric_names::released, "KV blocks ever given back"},
    {"--metric-leaked", &metric_names::leaked, "KV blocks the server itself calls leaked"},
    {"--metric-total", &metric_names::total, "KV blocks of the pool"},
    {"--metric-steps", &metric_names::steps,
     "sequences or tokens computed so far, while they run; A*B is a product"},
    {"--metric-step-seconds", &metric_names::step_seconds, "histogram of the device's steps"},
};

template <typename Enum, std::size_t Count>
std::vector<Enum> named(const std::vector<std::string>& asked,
                        const std::array<std::string_view, Count>& names, const char* option) {
  std::vector<Enum> found;
  for (const auto& one : asked) {
    const auto at = std::find(names.begin(), names.end(), one);
    if (at == names.end())
      throw CLI::ValidationError(option,
                                 fmt::format("'{}' is none of {}", one, fmt::join(names, ", ")));
    found.push_back(static_cast<Enum>(at - names.begin()));
  }
  return found;
}

struct texts {
  std::vector<std::string> transports, manners;
  std::map<std::string, std::string> metrics;
};

void add_work_options(CLI::App& app, settings& s, texts& t) {
  const auto positive = CLI::PositiveNumber;
  app.add_option("--kills", s.kills, "clients to kill, rounded up to whole waves")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--wave", s.wave, "clients of a wave")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  app.add_option("--neighbours", s.neighbours, "well-behaved clients beside each wave")
      ->check(CLI::Range(0, 256))
      ->capture_default_str();
  app.add_option("--rear", s.rear,
                 "clients of a wave that start when the neighbours are through (default: a sixth)");
  app.add_option("--seed", s.seed, "order of the cells, prompts and starts")->capture_default_str();
  app.add_option("--transports", t.transports,
                 "plain, sse, websocket (default: all that the target has)")
      ->delimiter(',');
  app.add_option("--manners", t.manners,
                 "fin, rst, half-close, close-frame, silence, kill-9 (default: all)")
      ->delimiter(',');
  app.add_option("--byte-stride", s.by.bytes,
                 "step of N over bytes sent; the next sweep begins one further")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--event-stride", s.by.events, "step of N over events received")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--ms-stride", s.by.milliseconds, "step of N over milliseconds")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--max-tokens", s.max_tokens, "answer of a client that is to die")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--neighbour-tokens", s.neighbour_tokens, "answer of a neighbour")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--silence-tokens", s.silence_tokens, "answer of a client that stops reading")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--prompt-words", s.prompt_words, "words of the longer half of the prompts")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--spread-ms", s.spread_ms, "the clients of a wave start within this time")
      ->capture_default_str();
}

void add_check_options(CLI::App& app, settings& s, texts& t) {
  const auto positive = CLI::PositiveNumber;
  app.add_option("--poll-ms", s.poll_ms, "pause between two looks at the metrics")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--idle-limit-ms", s.idle_limit_ms,
                 "longest time from a wave's last kill until idle (default: step + 50)");
  app.add_option(
         "--max-step-ms", s.max_step_ms,
         "the least that counts as one step; a wave's own longest step counts when it is longer")
      ->capture_default_str();
  app.add_option(
      "--idle-timeout-s", s.idle_timeout_s,
      "give up when the server is not idle after this (default: 30; 600 for others than troupe)");
  app.add_option("--wave-timeout-s", s.wave_timeout_s, "give up when a wave takes longer")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--block-size", s.block_size, "tokens of a KV block, to know the pool in tokens")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--context", s.context,
                 "longest request in tokens (default: max_model_len of the model card)");
  app.add_option("--pool-tokens", s.pool_tokens,
                 "tokens of the whole KV pool (default: blocks by the metrics x block size)");
  app.add_option("--pool-request-every", s.pool_request_every,
                 "waves between two requests for the whole pool; 0 = at the end only (default: 1, "
                 "20 or 0 by its size)");
  app.add_option("--pool-timeout-s", s.pool_timeout_s,
                 "time the request for the whole pool may take")
      ->check(positive)
      ->capture_default_str();
  app.add_option("--rss-pid", s.rss_pid,
                 "process whose resident memory is looked at (--serve knows it)");
  app.add_option("--rss-after", s.rss_after, "kills after which it is looked at first")
      ->capture_default_str();
  app.add_option("--pool-bytes", s.pool_bytes,
                 "size of the KV pool, not counted as resident memory (--serve knows it)");
  app.add_option("--rss-limit", s.rss_limit, "last look divided by first, at most")
      ->check(positive)
      ->capture_default_str();
  for (const auto& [name, field, meaning] : metric_options)
    app.add_option(name, t.metrics[name],
                   fmt::format("name on the metrics page: {}; none = not available", meaning));
}

void complete(settings& s, const texts& t) {
  if (s.url.empty() == s.serve.empty())
    throw CLI::ValidationError("URL", "give either URL or --serve COMMAND");
  try {
    if (!s.url.empty()) api_client::parse_url(s.url);
  } catch (const std::invalid_argument& error) {
    throw CLI::ValidationError("URL", error.what());
  }
  s.metrics = presets.at(s.target);
  for (const auto& [name, field, meaning] : metric_options)
    if (const auto& given = t.metrics.at(name); !given.empty())
      s.metrics.*field = given == "none" ? "" : given;
  if (s.metrics.running.empty()) throw CLI::ValidationError("--metric-running", "must be given");
  s.transports = named<transport>(t.transports, transport_names, "--transports");
  s.manners = named<manner>(t.manners, manner_names, "--manners");
  const bool own = s.target == "troupe";
  if (s.transports.empty()) {
    s.transports = {transport::plain, transport::sse};
    if (own) s.transports.push_back(transport::websocket);
  }
  if (s.manners.empty())
    s.manners = {manner::fin,         manner::reset,   manner::half_close,
                 manner::close_frame, manner::silence, manner::kill_9};
  if (!s.idle_timeout_s) s.idle_timeout_s = own ? 30 : 600;
  if (!s.rear) s.rear = std::max(1u, s.wave / 6);
  s.rear = std::min(*s.rear, s.wave);
  if (kill_matrix(s.transports, s.manners, s.by, s.seed).empty())
    throw CLI::ValidationError("--manners", "a close frame needs the transport websocket");
}

}  // namespace

std::optional<int> parse(int argc, char** argv, settings& s) {
  CLI::App app{
      "troupe-chaos: clients that die in every way at every moment, and what it costs the server"};
  texts t;
  app.add_option("URL", s.url, "http://HOST:PORT of a running, idle server");
  app.add_option(
      "--serve", s.serve,
      "start this server instead (it prints a JSON line with event ready), SIGTERM it at the end");
  app.add_option("--target", s.target, "names and routes of this server")
      ->check(CLI::IsMember({"troupe", "llama-server", "vllm"}))
      ->capture_default_str();
  app.add_option("--api-key", s.api_key, "sent as Authorization: Bearer");
  app.add_option("--model", s.model, "sent as model");
  app.add_flag("--json", s.json, "one JSON object also on a terminal");
  add_work_options(app, s, t);
  add_check_options(app, s, t);
  try {
    app.parse(argc, argv);
    complete(s, t);
  } catch (const CLI::CallForHelp& help) {
    return app.exit(help);
  } catch (const CLI::Error& error) {
    fmt::print(stderr, "troupe-chaos: {}\n", error.what());
    return 2;
  }
  return std::nullopt;
}

}  // namespace troupe::chaos
