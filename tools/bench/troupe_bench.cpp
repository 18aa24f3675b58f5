// troupe-bench: how fast the parts are on this machine. The command line alone; the figures are
// made elsewhere.
#include <fmt/core.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "tools/bench/bench.hpp"
#include "tools/bench/build_facts.hpp"

namespace {

void add_engine_options(CLI::App& engine, troupe::engine_options& o) {
  engine.add_option("--streams", o.streams, "sequences that decode together, as a list: 1,8")
      ->delimiter(',')
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  engine
      .add_option("--context", o.context,
                  "also decode at 8 sequences behind prompts of so many tokens")
      ->check(CLI::Range(16, 1'000'000));
  engine.add_option("--runs", o.runs, "of each figure; the median is told")
      ->check(CLI::Range(1, 99))
      ->capture_default_str();
  auto* only = engine.add_flag("--device-only", o.device_only,
                               "the device by itself: no scheduler, executor or session");
  engine.add_flag("--beside-device", o.beside_device, "both, in turns, and the share that is left")
      ->excludes(only);
}

void add_kv_options(CLI::App& kv, troupe::kv_options& o) {
  kv.add_option("--types", o.types, "of K/V, or of both, as a list: f16,int8,int8/int4")
      ->delimiter(',')
      ->capture_default_str();
  kv.add_option("--text", o.text, "file whose loss and distribution are told")
      ->check(CLI::ExistingFile);
  kv.add_option("--tokens", o.tokens, "of the text, at most")
      ->check(CLI::Range(2, 1 << 16))
      ->capture_default_str();
  kv.add_option("--context", o.context, "tokens behind which 8 sequences decode")
      ->check(CLI::Range(16, 1'000'000))
      ->capture_default_str();
  kv.add_option("--runs", o.runs, "windows of each rate, in turns; 0: no rates")
      ->check(CLI::Range(0, 99))
      ->capture_default_str();
}

void add_serve_options(CLI::App& serve, troupe::load_options& o, std::string& words,
                       std::string& tokens) {
  serve.add_option("URL", o.url, "http://host[:port][/base] of an OpenAI-compatible server")
      ->required();
  serve.add_option("--endpoint", o.endpoint, "completions or chat, both streamed")
      ->check(CLI::IsMember({"completions", "chat"}))
      ->capture_default_str();
  serve.add_option("--model", o.model, "default: the first the server lists");
  serve.add_option("--api-key", o.api_key, "sent as a bearer token")->envname("OPENAI_API_KEY");
  auto* clients = serve
                      .add_option("--clients", o.clients,
                                  "closed loop: clients, each with one request at a time")
                      ->check(CLI::Range(1, 10000))
                      ->capture_default_str();
  serve.add_option("--rate", o.rate, "open loop: requests a second, Poisson arrivals")
      ->check(CLI::Range(0.001, 100000.0))
      ->excludes(clients);
  auto* requests = serve.add_option("--requests", o.requests, "how many in all")
                       ->check(CLI::Range(1, 10'000'000))
                       ->capture_default_str();
  serve
      .add_option("--duration", o.duration_s,
                  "seconds in which requests begin, instead of a number of them")
      ->check(CLI::Range(0.1, 86400.0))
      ->excludes(requests);
  serve.add_option("--prompt-words", words, "N, or LOW:HIGH for lengths between")
      ->default_str("60");
  serve.add_option("--max-tokens", tokens, "of an answer: N, or LOW:HIGH for lengths between")
      ->default_str("64");
  serve.add_flag("!--no-ignore-eos", o.ignore_eos, "let answers end by themselves");
  serve
      .add_option("--cancel-share", o.cancel_share,
                  "share of the requests killed after a random number of tokens")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  serve.add_option("--slow-share", o.slow_share, "share of the requests whose client reads slowly")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  serve.add_option("--slow-bytes-per-s", o.slow_bytes_per_s, "what a slow reader reads")
      ->check(CLI::Range(1, 1'000'000'000))
      ->capture_default_str();
  serve.add_option("--slo-ttft-ms", o.slo_ttft_ms, "goodput: first token within")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  serve.add_option("--slo-tpot-ms", o.slo_tpot_ms, "goodput: milliseconds per token")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  serve.add_option("--timeout", o.timeout_s, "seconds for one request")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
  serve.add_option("--seed", o.seed, "of prompts, arrivals and who leaves")->capture_default_str();
  serve.add_option("--json", o.json_file,
                   "write JSON here (-: the standard output, as into a pipe)");
  serve.add_option("--plot", o.plot_file, "write the latencies' distributions here, as SVG");
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"troupe-bench: how fast the parts are on this machine"};
  app.require_subcommand(1);
  std::string model;
  troupe::gpu::backend_options options;
  bool json = false;
  double step_ms = 35;

  CLI::App* engine = app.add_subcommand(
      "engine", "prefill and decode rates through scheduler and executor, in process");
  CLI::App* kernels = app.add_subcommand(
      "kernels", "each kernel beside the machine's peaks; words on a terminal, JSON in a pipe");
  CLI::App* cache =
      app.add_subcommand("cache", "prefix hits and parked requests, beside computing again");
  CLI::App* policies = app.add_subcommand(
      "policies", "the same requests under one policy after another, in process");
  CLI::App* kv = app.add_subcommand(
      "kv", "types of the KV cache: quality, bytes a token, decode rates beside the first's");
  for (auto* device : {engine, kernels, cache, policies, kv}) {
    device->add_option("MODEL", model, "GGUF file")->required();
    device->add_option("--threads", options.own["threads"], "0: the cores this process may use");
    device->add_option("--isa", options.own["isa"], "auto, avx512-vnni, avx2, portable");
  }
  kv->add_option("--kv-cache-precise-layers", options.kv_cache_precise_layers,
                 "FIRST,LAST: so many layers stay f16 in each type");
  for (auto* device : {engine, kernels, cache, policies}) {
    device->add_option("--kv-cache-dtype", options.kv_cache_dtype, "how K and V are stored");
    device->add_option("--kv-cache-dtype-k", options.kv_cache_dtype_k, "how K alone is stored");
    device->add_option("--kv-cache-dtype-v", options.kv_cache_dtype_v, "how V alone is stored");
  }
  troupe::kv_options types;
  add_kv_options(*kv, types);
  troupe::engine_options rates;
  add_engine_options(*engine, rates);
  engine->add_flag("--profile", options.profile,
                   "also where the device's time went, by kind of kernel");
  troupe::policy_options policy;
  policies->add_option("--table", policy.tables, "only this one; may be repeated")
      ->check(CLI::IsMember(troupe::policy_tables));
  policies->add_flag("--quick", policy.quick,
                     "a few short requests: does it work, not how fast is it");
  policies
      ->add_option("--rate", policy.rate,
                   "arrivals a second; default: 80 % of what a first run measures")
      ->check(CLI::Range(0.001, 100000.0));
  policies->add_option("--seed", policy.seed, "of requests and arrivals")->capture_default_str();
  CLI::App* bookkeeping =
      app.add_subcommand("bookkeeping", "block ledger and prefix index: time per step");
  bookkeeping->add_option("--step-ms", step_ms, "the step's own time, to compare with")
      ->check(CLI::PositiveNumber);
  for (auto* each : app.get_subcommands({})) each->add_flag("--json", json, "one line of JSON");

  CLI::App* serve =
      app.add_subcommand("serve", "a load on a server by its URL: latencies, rates, goodput");
  troupe::load_options load;
  std::string words = "60", tokens = "64";
  add_serve_options(*serve, load, words, tokens);
  CLI11_PARSE(app, argc, argv);
  try {
    if (*engine)
      troupe::bench_engine(model, options, rates, troupe::command_line(argc, argv), json);
    if (*kernels) troupe::bench_kernels(model, options, json || !isatty(STDOUT_FILENO));
    if (*kv)
      troupe::bench_kv(model, options, types, troupe::command_line(argc, argv),
                       json || !isatty(STDOUT_FILENO));
    if (*cache) troupe::bench_cache(model, options, json);
    if (*bookkeeping) troupe::bench_bookkeeping(step_ms, json);
    if (*policies)
      troupe::bench_policies(model, options, policy, troupe::command_line(argc, argv), json);
    if (*serve) {
      troupe::read_range("--prompt-words", words, load.words_min, load.words_max);
      troupe::read_range("--max-tokens", tokens, load.tokens_min, load.tokens_max);
      return troupe::bench_serve(load, troupe::command_line(argc, argv)) ? 0 : 1;
    }
  } catch (const std::exception& error) {
    fmt::print(stderr, "troupe-bench: {}\n", error.what());
    return 1;
  }
}
