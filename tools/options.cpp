#include "tools/options.hpp"

#include <CLI/CLI.hpp>

#include "config/nearest.hpp"

namespace troupe {
namespace {

/// `SIZE` options are texts until the parse is over, so that a bad one is reported beside the others.
struct size_texts {
  std::string kv_cache_memory, body, message, pipelined, outbound;
};

void add_model_options(CLI::App& app, runtime_config& config, size_texts& sizes) {
  app.add_option("model,-m,--model", config.model, "GGUF file to serve")->type_name("MODEL");
  app.add_option("-a,--alias,--served-model-name", config.served_model_names, "name(s) clients may use [the file's stem]");
  app.add_option("--threads", config.threads, "worker threads of the device [cores this process may use]");
  app.add_option("--isa", config.isa, "kernels: auto, avx512-vnni, avx2, portable [auto]");
  app.add_option("--block-size", config.block_size, "tokens per KV block, 16 or 32 [16]");
  app.add_option("--num-kv-blocks", config.num_kv_blocks, "KV blocks in the pool [from --kv-cache-memory]");
  app.add_option("--kv-cache-memory", sizes.kv_cache_memory, "size of the KV pool [1GiB]")->type_name("SIZE");
}

void add_scheduling_options(CLI::App& app, runtime_config& config) {
  app.add_option("-c,--ctx-size,--max-model-len", config.max_model_len, "context in tokens [the model's]");
  app.add_option("--parallel,--max-num-seqs", config.max_num_seqs, "sequences that run at once [32]");
  app.add_option("--max-num-batched-tokens", config.max_num_batched_tokens, "tokens of one step [512]");
  app.add_option("--max-num-queued-reqs", config.max_num_queued_reqs, "requests that may wait [64]");
  app.add_option("--max-step-ms", config.max_step_ms, "target time of one step, shrinks prefill chunks [100]");
  app.add_option("--queue-timeout", config.queue_timeout_s, "seconds a request may wait, 0 = no limit [60]");
  app.add_option("--first-token-timeout", config.first_token_timeout_s, "seconds to the first token [120]");
  app.add_option("--request-timeout", config.request_timeout_s, "seconds of a whole request [600]");
}

void add_net_options(CLI::App& app, runtime_config& config, size_texts& sizes) {
  app.add_option("--host", config.host, "address to listen on [127.0.0.1]");
  app.add_option("--port", config.port, "port, 0 = any free one [8000]");
  app.add_option("--threads-http", config.threads_http, "I/O threads [1]");
  app.add_option("--max-connections", config.max_connections, "open connections [1024]");
  app.add_option("--max-websocket-connections", config.max_websocket_connections, "open WebSockets [256]");
  app.add_option("--max-body-bytes", sizes.body, "largest request body [4MiB]")->type_name("SIZE");
  app.add_option("--max-message-bytes", sizes.message, "largest WebSocket message [4MiB]")->type_name("SIZE");
  app.add_option("--max-pipelined-bytes", sizes.pipelined, "bytes kept behind a running request [64KiB]")->type_name("SIZE");
  app.add_option("--max-outbound-bytes", sizes.outbound, "undelivered answer of one request [1MiB]")->type_name("SIZE");
  app.add_option("--max-n", config.max_n, "choices of one request [16]");
  app.add_option("--max-ws-queue", config.max_ws_queue, "responses waiting on one WebSocket [16]");
  app.add_option("--header-timeout", config.header_timeout_s, "seconds for a request's headers [10]");
  app.add_option("--body-timeout", config.body_timeout_s, "seconds for a request's body [30]");
  app.add_option("--keep-alive-timeout", config.keep_alive_timeout_s, "seconds an idle connection stays open [75]");
  app.add_option("--client-send-timeout", config.client_send_timeout_s, "seconds a write may make no progress [30]");
  app.add_option("--sse-keep-alive-interval", config.sse_keep_alive_interval_s, "seconds between SSE comments, 0 = none [15]");
  app.add_option("--ws-ping-interval", config.ws_ping_interval_s, "seconds between WebSocket pings [20]");
  app.add_option("--ws-max-age", config.ws_max_age_s, "seconds a WebSocket may live [3600]");
  app.add_option("--tcp-user-timeout", config.tcp_user_timeout_s, "seconds until unacknowledged data ends a connection [30]");
  app.add_option("--tcp-keepalive", config.tcp_keepalive_s, "seconds until an idle peer is probed [30]");
  app.add_flag("--allow-half-close{false}", config.half_close_is_gone, "a client may shut its sending side and still read");
  app.add_option("--api-key", config.api_keys, "key(s) clients must send");
  app.add_option("--allowed-origins", config.allowed_origins, "origins of web pages beside the same host")->delimiter(',');
  app.add_flag("--metrics-open", config.metrics_open, "/metrics without the key");
  app.add_option("--shutdown-timeout", config.shutdown_timeout_s, "seconds of draining after SIGTERM [10]");
  app.add_option("--stall-ready-s", config.stall_ready_s, "seconds without a step until /ready is 503 [30]");
  app.add_option("--stall-health-s", config.stall_health_s, "seconds without a step until /health is 503 [120]");
}

void add_output_options(CLI::App& app, runtime_config& config) {
  app.add_flag("--json", config.json, "JSON lines instead of words (the default when not on a terminal)");
  app.add_option("--log-level", config.log_level, "trace, debug, info, warn, error, off [info]");
}

void read_size(const std::string& text, const char* option, std::uint64_t& value, std::vector<std::string>& problems) {
  if (text.empty()) return;
  if (const auto bytes = parse_size(text))
    value = *bytes;
  else
    problems.push_back(std::string(option) + ": '" + text + "' is not a size such as 512MiB or 1.5GiB");
}

/// "--prot: unknown option; did you mean --port?"
std::string unknown_option(const CLI::App& app, const std::string& given) {
  std::vector<std::string> names;
  for (const auto* option : app.get_options())
    for (const auto& name : option->get_lnames()) names.push_back("--" + name);
  const auto word = given.substr(0, given.find('='));
  const auto near = nearest(word, names);
  return word + ": unknown option" + (near.empty() ? "; --help lists them all" : "; did you mean " + near + "?");
}

}  // namespace

std::variant<runtime_config, early_exit> parse_options(int argc, const char* const* argv) {
  runtime_config config;
  size_texts sizes;
  CLI::App app{"Troupe serves a language model to chat clients and gives their cache blocks back when they leave.", "troupe"};
  app.set_version_flag("--version", std::string("troupe ") + TROUPE_VERSION);
  app.require_subcommand(1);
  auto& serve = *app.add_subcommand("serve", "serve MODEL over HTTP and WebSocket");
  serve.allow_extras();
  add_model_options(serve, config, sizes);
  add_scheduling_options(serve, config);
  add_net_options(serve, config, sizes);
  add_output_options(serve, config);
  std::vector<std::string> problems;
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {  // help or version
    std::ostringstream text, errors;
    app.exit(e, text, errors);
    return early_exit{0, text.str()};
  } catch (const CLI::ParseError& e) {
    return early_exit{2, std::string(e.what()) + "; troupe serve --help lists the options\n"};
  }
  for (const auto& extra : serve.remaining()) {
    if (!extra.empty() && extra[0] == '-')
      problems.push_back(unknown_option(serve, extra));
    else
      problems.push_back("'" + extra + "': unexpected argument" + (config.model.empty() ? "" : "; the model is " + config.model));
  }
  read_size(sizes.kv_cache_memory, "--kv-cache-memory", config.kv_cache_memory, problems);
  read_size(sizes.body, "--max-body-bytes", config.max_body_bytes, problems);
  read_size(sizes.message, "--max-message-bytes", config.max_message_bytes, problems);
  read_size(sizes.pipelined, "--max-pipelined-bytes", config.max_pipelined_bytes, problems);
  read_size(sizes.outbound, "--max-outbound-bytes", config.max_outbound_bytes, problems);
  for (auto& problem : config.problems()) problems.push_back(std::move(problem));
  if (problems.empty()) return config;
  std::string text;
  for (const auto& problem : problems) text += "troupe: " + problem + "\n";
  return early_exit{2, text};
}

}  // namespace troupe
