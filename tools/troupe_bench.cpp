// troupe-bench: how fast the parts are on this machine. The command line alone; the figures are made elsewhere.
#include "tools/troupe_bench.hpp"

#include <fmt/core.h>

#include <CLI/CLI.hpp>

int main(int argc, char** argv) {
  CLI::App app{"troupe-bench: how fast the parts are on this machine"};
  app.require_subcommand(1);
  std::string model;
  troupe::gpu::backend_options options;
  bool json = false;
  double step_ms = 35;

  CLI::App* engine = app.add_subcommand("engine", "the device alone: prefill and decode rates");
  CLI::App* cache = app.add_subcommand("cache", "prefix hits and parked requests, beside computing again");
  for (auto* device : {engine, cache}) {
    device->add_option("MODEL", model, "GGUF file")->required();
    device->add_option("--threads", options.threads, "0: the cores this process may use");
    device->add_option("--isa", options.isa, "auto, avx512-vnni, avx2, portable");
  }
  CLI::App* bookkeeping = app.add_subcommand("bookkeeping", "block ledger and prefix index: time per step");
  bookkeeping->add_option("--step-ms", step_ms, "the step's own time, to compare with")->check(CLI::PositiveNumber);
  for (auto* each : app.get_subcommands({})) each->add_flag("--json", json, "one line of JSON");
  CLI11_PARSE(app, argc, argv);
  try {
    if (*engine) troupe::bench_engine(model, options, json);
    if (*cache) troupe::bench_cache(model, options, json);
    if (*bookkeeping) troupe::bench_bookkeeping(step_ms, json);
  } catch (const std::exception& error) {
    fmt::print(stderr, "troupe-bench: {}\n", error.what());
    return 1;
  }
}
