#include "tools/cli/serve.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <stop_token>

#include "actors/embedding/prewarm.hpp"
#include "actors/runtime.hpp"
#include "config/checks/host_address.hpp"
#include "config/log.hpp"
#include "config/threads/joined_thread.hpp"
#include "gpu/make_backend.hpp"
#include "net/server/server.hpp"
#include "tools/cli/memory_plan.hpp"
#include "tools/cli/process_events.hpp"
#include "tools/cli/profile_report.hpp"
#include "tools/cli/startup_report.hpp"

namespace troupe {
namespace {

using std::chrono::steady_clock;

constexpr int exit_usage = 2, exit_engine_failed = 70;

/// Metrics that also write the log line of every ended request.
class serving_observer final : public net::metrics {
 public:
  void on_end(const core::request_record& record) override {
    net::metrics::on_end(record);
    const auto ms = [](std::uint64_t us) { return static_cast<double>(us) / 1000.0; };
    log_event(log_level::info, "request_ended",
              {{"id", record.label},
               {"request", record.id.value},
               {"reason",
                std::string(record.reason == core::end_reason::refused ? name_of(record.why_refused)
                                                                       : name_of(record.reason))},
               {"prompt_tokens", std::uint64_t{record.usage.prompt}},
               {"cached_tokens", std::uint64_t{record.usage.cached}},
               {"completion_tokens", std::uint64_t{record.usage.completion}},
               {"queue_ms", ms(record.times.queue_us)},
               {"first_token_ms", ms(record.times.first_token_us)},
               {"total_ms", ms(record.times.total_us)},
               {"preemptions", std::uint64_t{record.preemptions}}});
  }
  void on_violation(const std::string& invariant) override {
    net::metrics::on_violation(invariant);
    log_event(log_level::error, "invariant_violated", {{"invariant", invariant}});
  }
};

void print_line(const std::string& text) {
  std::fputs((text + "\n").c_str(), stdout);
  std::fflush(stdout);
}

void announce(const runtime_config& config, const core::generation_engine& engine,
              std::uint16_t port, double seconds) {
  const auto url = fmt::format("http://{}:{}", host_in_url(config.host), port);
  const auto key = config.api_keys.empty() ? "" : " -H 'Authorization: Bearer KEY'";
  const auto curl = fmt::format(
      "curl -N {}/v1/chat/completions{} -H 'Content-Type: application/json' "
      "-d '{{\"messages\":[{{\"role\":\"user\",\"content\":\"Tell me a "
      "story\"}}],\"stream\":true,\"max_tokens\":64}}'",
      url, key);
  if (config.json)
    print_line(to_json(log_fields{{"event", std::string("ready")},
                                  {"url", url},
                                  {"port", std::uint64_t{port}},
                                  {"model", engine.card().name},
                                  {"seconds", seconds},
                                  {"curl", curl}}));
  else
    print_line(fmt::format("ready in {:.2f} s: {}  try: {}", seconds, url, curl));
}

/// Runs until a signal has drained the server, or the engine died.
int wait_for_end(process_events& events, const std::stop_token& died, const runtime_config& config,
                 runtime& engine, net::server& server) {
  events.wait([&] { return died.stop_requested() || events.signals() > 0; });
  if (!died.stop_requested()) {
    log_event(log_level::info, "draining", {{"shutdown_timeout_s", config.shutdown_timeout_s}});
    server.drain();
    engine.drain();
    const auto until =
        steady_clock::now() + std::chrono::duration_cast<steady_clock::duration>(
                                  std::chrono::duration<double>(config.shutdown_timeout_s));
    events.wait(
        [&] {
          return died.stop_requested() || events.signals() > 1 ||
                 (engine.wait_stopped(std::chrono::milliseconds(0)) && server.idle());
        },
        until);
  }
  const bool failed = died.stop_requested() || engine.health().failed;
  engine.stop(core::end_reason::shutdown);
  engine.wait_stopped(std::chrono::seconds(5));
  // What ended by name still has to reach its client.
  events.wait([&] { return server.idle(); }, steady_clock::now() + std::chrono::seconds(1));
  server.stop();
  log_event(failed ? log_level::error : log_level::info, "stopped");
  return failed ? exit_engine_failed : 0;
}

/// On standard error, as words or one line of JSON; like the log it waits for no reader, and it
/// fits what a pipe takes.
void print_profile(const gpu::device_profile& profile, bool json) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  nlohmann::ordered_json line{{"time", now.count()}, {"level", "info"}, {"event", "profile"}};
  line.update(profile_json(profile));
  const std::string text = json ? line.dump() + "\n" : profile_words(profile);
  pollfd ready{STDERR_FILENO, POLLOUT, 0};
  if (poll(&ready, 1, 0) != 1 || !(ready.revents & POLLOUT)) return;
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), text.size());
}

/// --prewarm: an exit code where there is nothing to serve.
std::optional<int> warm(const runtime_config& config, runtime& engine, std::uint32_t pool_blocks,
                        std::stop_token died) {
  if (config.prewarm.empty()) return std::nullopt;
  const auto done =
      prewarm(engine, config.prewarm, config.block_size, pool_blocks, std::move(died));
  for (const auto& problem : done.problems)
    std::fprintf(stderr, "troupe: --prewarm %s: %s\n", config.prewarm.c_str(), problem.c_str());
  if (!done.problems.empty()) return exit_usage;
  if (done.interrupted) return exit_engine_failed;
  if (!done.warning.empty())
    log_event(log_level::warn, "prewarm_beyond_the_pool", {{"why", done.warning}});
  if (config.json)
    print_line(to_json(log_fields{{"event", std::string("prewarmed")},
                                  {"prompts", std::uint64_t{done.prompts}},
                                  {"tokens", done.tokens}}));
  else
    print_line(fmt::format("prewarmed {} tokens of {} prompts", done.tokens, done.prompts));
  return std::nullopt;
}

/// --panel-cache: one line, whatever became of it.
void log_panel_cache(const gpu::weight_report& weights) {
  using enum gpu::weight_report::panel_cache;
  if (weights.panels == off) return;
  const bool as_wanted = weights.panels == used || weights.panels == written;
  const std::string event = weights.panels == used      ? "panel_cache_used"
                            : weights.panels == written ? "panel_cache_written"
                            : weights.panels == rebuilt ? "panel_cache_rebuilt"
                                                        : "panel_cache_not_written";
  log_fields fields{{"path", weights.path}, {"seconds", weights.seconds}};
  if (!as_wanted) fields.emplace_back("why", weights.why);
  log_event(as_wanted ? log_level::info : log_level::warn, event, fields);
}

/// Of all parts together, so that a start that cannot succeed fails before the model is read.
void require_all_threads(const runtime_config& config, const gpu::backend_options& device) {
  require_threads(gpu::threads_needed(device) + runtime::threads_needed(config) +
                  net::server::threads_needed(config));
}

/// All but the number of blocks. An option that was left at its default is none that a device would
/// have to know.
gpu::backend_options device_options(const runtime_config& config) {
  gpu::backend_options out;
  out.block_size = config.block_size;
  out.device = config.device;
  out.kv_cache_dtype = config.kv_cache_dtype;
  out.kv_cache_dtype_k = config.kv_cache_dtype_k;
  out.kv_cache_dtype_v = config.kv_cache_dtype_v;
  out.kv_cache_precise_layers = config.kv_cache_precise_layers;
  out.profile = config.profile;
  if (config.threads != 0) out.own["threads"] = std::to_string(config.threads);
  if (config.isa != "auto") out.own["isa"] = config.isa;
  if (config.panel_cache) out.own["panel-cache"] = "true";
  return out;
}

int run(runtime_config& config) {
  const auto began = steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(steady_clock::now() - began).count();
  };
  process_events events;
  std::stop_source died;  // the stop that the engine's death asks for
  auto options = device_options(config);
  require_all_threads(config, options);
  const auto model = gpu::load_model(config.model);
  const double model_seconds = seconds();
  const auto& kind = gpu::choose_device(options.device);
  const auto pool = plan_pool(config, gpu::kv_format_of(kind, model->config, options),
                              kind.weight_bytes(model->file.tensors()), kind.available_memory());
  if (!pool.shrunk.empty()) log_event(log_level::warn, "kv_pool_shrunk", {{"why", pool.shrunk}});
  options.num_blocks = pool.blocks;
  std::shared_ptr<gpu::backend> device = gpu::make_backend(model, options);
  model->file.release_data();  // a file that is truncated while it is mapped would end the process
  const double load_seconds = seconds();
  log_panel_cache(device->info().weights);
  serving_observer watcher;
  runtime engine(config, model, device, watcher, [&](const std::string& what) {
    log_event(log_level::error, "engine_failed", {{"what", what}});
    died.request_stop();
    events.changed();
  });
  if (const auto code = warm(config, engine, pool.blocks, died.get_token())) return *code;
  net::server server(config, engine, watcher);
  server.when_idle([&] { events.changed(); });
  engine.when_stopped([&] { events.changed(); });
  events.serving();
  const auto port = server.start();
  const startup_facts facts{config,          *model,       device->info(),
                            engine.limits(), load_seconds, model_seconds};
  print_line(config.json ? startup_json(facts) : startup_words(facts));
  if (block_table_share(facts) > 0.10)
    log_event(log_level::warn, "block_tables_large", {{"share", block_table_share(facts)}});
  if (const auto cut = context_warning(facts); !cut.empty())
    log_event(log_level::warn, "context_beyond_the_model", {{"why", cut}});
  announce(config, engine, port, seconds());
  const int code = wait_for_end(events, died.get_token(), config, engine, server);
  if (config.profile) print_profile(device->profile(), config.json);
  return code;
}

}  // namespace

int serve(runtime_config config, const std::vector<std::string>& warnings) {
  config.json =
      config.log_format == "json" || (config.log_format == "auto" && !isatty(STDOUT_FILENO));
  configure_log(config.log_level, config.json);
  for (const auto& warning : warnings)
    log_event(log_level::warn, "setting_ignored", {{"why", warning}});
  try {
    return run(config);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "troupe: %s\n", e.what());
    return exit_usage;
  }
}

}  // namespace troupe
