// A load on any OpenAI-compatible server by URL, and what its clients saw.
#include <fmt/core.h>
#include <unistd.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "tools/bench/bench.hpp"
#include "tools/bench/load/load_run.hpp"

namespace troupe {
namespace {

void write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file.flush()) throw std::runtime_error(path + ": cannot be written");
}

}  // namespace

bool bench_serve(const load_options& options, const std::string& command) {
  auto result = run_load(options, isatty(STDERR_FILENO) != 0);
  result.facts = facts_of_run(command);
  const auto figures = figures_of(result);
  const auto json = to_json(result, figures).dump();
  const bool words = options.json_file != "-" && isatty(STDOUT_FILENO) != 0;
  if (!options.json_file.empty() && options.json_file != "-")
    write_file(options.json_file, json + "\n");
  if (!options.plot_file.empty()) {
    const auto title =
        fmt::format("{}, {:.0f} tokens/s, {} requests", result.options.model,
                    static_cast<double>(figures.output_tokens) / result.elapsed_s, figures.sent);
    write_file(options.plot_file, svg_of(title, panels_of(figures)));
  }
  if (words || (!options.json_file.empty() && options.json_file != "-"))
    fmt::print("{}", to_words(result, figures));
  else
    fmt::print("{}\n", json);
  return figures.failed == 0;
}

}  // namespace troupe
