// Which rates are taken, in which order, and how they are told.
#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <utility>

#include "tools/bench/bench.hpp"
#include "tools/bench/build_facts.hpp"
#include "tools/bench/engine_rates.hpp"
#include "tools/cli/profile_report.hpp"

namespace troupe {
namespace {

using steady = std::chrono::steady_clock;

constexpr std::uint32_t prefill_tokens = 512, context_streams = 8, few_streams = 8;

/// Of one kind of engine; the medians.
struct rates {
  double prefill = 0;
  std::vector<decode_rate> decode;  ///< one for each of the wanted streams
  decode_rate context;
};

struct engine_figures {
  std::optional<rates> runtime, device;
  gpu::device_info info;
  gpu::device_profile profile;  ///< of all steps; on when it was asked for
  double load_s = 0;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const auto half = values.size() / 2;
  return values.size() % 2 ? values[half] : (values[half - 1] + values[half]) / 2;
}

decode_rate median(const std::vector<decode_rate>& windows) {
  std::vector<double> tokens, bytes;
  for (const auto& one : windows) {
    tokens.push_back(one.tokens_per_s);
    bytes.push_back(one.kv_bytes_per_s);
  }
  return {median(tokens), median(bytes)};
}

double prefill_median(engine_rates& engine, std::uint32_t runs) {
  engine.prefill(prefill_tokens);  // the scheduler learns what a token costs
  std::vector<double> values;
  for (std::uint32_t i = 0; i < runs; ++i) values.push_back(engine.prefill(prefill_tokens));
  return median(values);
}

/// Few streams decode for longer: their steps are short.
decode_plan plan_of(std::uint32_t streams, std::uint32_t runs) {
  return {.streams = streams, .steps = streams < few_streams ? 64u : 32u, .windows = runs};
}

decode_plan context_plan(const engine_options& wanted) {
  return {
      .streams = context_streams, .prompt = wanted.context, .steps = 16, .windows = wanted.runs};
}

std::uint32_t blocks_needed(const engine_options& wanted, std::uint32_t block_size) {
  auto most = 2 * prefill_tokens / block_size;
  for (const auto n : wanted.streams)
    most = std::max(most, plan_of(n, wanted.runs).blocks(block_size));
  if (wanted.context) most = std::max(most, context_plan(wanted).blocks(block_size));
  return most;
}

void refuse_too_long(const engine_options& wanted, std::uint32_t limit) {
  if (const auto longest = wanted.context ? context_plan(wanted).longest() : 0; longest > limit)
    throw std::invalid_argument(
        fmt::format("--context {}: with what is decoded {} tokens, more than the model's {}",
                    wanted.context, longest, limit));
}

engine_figures measure(const std::string& path, gpu::backend_options options,
                       const engine_options& wanted) {
  const auto begin = steady::now();
  const auto model = gpu::load_model(path);
  refuse_too_long(wanted, model->config.context);
  options.num_blocks = blocks_needed(wanted, options.block_size);
  const std::shared_ptr<gpu::backend> device = gpu::make_backend(model, options);
  model->file.release_data();
  engine_figures out;
  out.info = device->info();
  out.load_s = std::chrono::duration<double>(steady::now() - begin).count();
  const auto most = *std::max_element(wanted.streams.begin(), wanted.streams.end());
  // In turns, so that a machine that changes its speed changes both.
  std::unique_ptr<engine_rates> bare, whole;
  if (wanted.device_only || wanted.beside_device) bare = rates_of_device(model, device);
  if (!wanted.device_only) whole = rates_through_runtime(model, device, most, false);
  const auto each = [&](const auto& take) {
    if (bare) take(*bare, out.device ? *out.device : out.device.emplace());
    if (whole) take(*whole, out.runtime ? *out.runtime : out.runtime.emplace());
  };
  each([&](engine_rates& engine, rates& to) { to.prefill = prefill_median(engine, wanted.runs); });
  for (const auto n : wanted.streams)
    each([&](engine_rates& engine, rates& to) {
      to.decode.push_back(median(engine.decode(plan_of(n, wanted.runs))));
    });
  out.profile = device->profile();
  if (!wanted.context) return out;
  if (whole) {
    whole.reset();  // one runtime on a device at a time
    whole = rates_through_runtime(model, device, context_streams, true);
  }
  each([&](engine_rates& engine, rates& to) {
    to.context = median(engine.decode(context_plan(wanted)));
  });
  out.profile = device->profile();
  return out;
}

nlohmann::ordered_json to_json(const rates& r, const engine_options& wanted) {
  const auto rounded = [](double x) { return std::round(x * 10) / 10; };
  nlohmann::ordered_json decode = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < wanted.streams.size(); ++i)
    decode[std::to_string(wanted.streams[i])] = rounded(r.decode[i].tokens_per_s);
  nlohmann::ordered_json out = {{"prefill_512_tokens_per_s", rounded(r.prefill)},
                                {"decode_tokens_per_s", std::move(decode)}};
  if (wanted.context)
    out["context"] = {{"tokens", wanted.context},
                      {"sequences", context_streams},
                      {"decode_tokens_per_s", rounded(r.context.tokens_per_s)},
                      {"kv_gb_per_s", std::round(r.context.kv_bytes_per_s / 1e6) / 1000}};
  return out;
}

/// The rate through the runtime, the device's own and the share that is left of it; what was not
/// measured is left out.
void print_row(const std::string& name, const engine_figures& f, const auto& figure,
               const std::string& behind = "") {
  fmt::print("{:26}", name);
  if (f.runtime) fmt::print("{:12.1f}", figure(*f.runtime));
  if (f.device) fmt::print("{:12.1f}", figure(*f.device));
  if (f.runtime && f.device) fmt::print("{:11.1f} %", 100 * figure(*f.runtime) / figure(*f.device));
  fmt::print("{}\n", behind);
}

void print_words(const engine_figures& f, const engine_options& wanted,
                 const std::string& command) {
  const auto facts = facts_of_run(command);
  fmt::print("{}  {}, {} threads, {}\n{}\n{}\nload {:.2f} s, weights {:.1f} MB\n", facts.date,
             facts.machine, f.info.threads, f.info.isa, facts.build, facts.command, f.load_s,
             static_cast<double>(f.info.weight_bytes) / 1e6);
  fmt::print("{:26}{}{}{}\n", "tokens/s", f.runtime ? "     runtime" : "",
             f.device ? "      device" : "", f.runtime && f.device ? "        share" : "");
  print_row(fmt::format("prefill of {}", prefill_tokens), f,
            [](const rates& r) { return r.prefill; });
  for (std::size_t i = 0; i < wanted.streams.size(); ++i)
    print_row(fmt::format("decode, {} sequences", wanted.streams[i]), f,
              [&](const rates& r) { return r.decode[i].tokens_per_s; });
  if (!wanted.context) return;
  const auto& shown = f.runtime ? *f.runtime : *f.device;
  print_row(
      fmt::format("decode, {} at {} tokens", context_streams, wanted.context), f,
      [](const rates& r) { return r.context.tokens_per_s; },
      fmt::format("  {:.1f} GB/s of K and V read", shown.context.kv_bytes_per_s / 1e9));
}

}  // namespace

void bench_engine(const std::string& path, gpu::backend_options options,
                  const engine_options& wanted, const std::string& command, bool json) {
  const auto figures = measure(path, std::move(options), wanted);
  if (!json) {
    print_words(figures, wanted, command);
    if (figures.profile.on) fmt::print("{}", profile_words(figures.profile));
    return;
  }
  const auto facts = facts_of_run(command);
  nlohmann::ordered_json out = {{"date", facts.date},
                                {"machine", facts.machine},
                                {"build", facts.build},
                                {"command", facts.command},
                                {"isa", figures.info.isa},
                                {"threads", figures.info.threads},
                                {"load_s", std::round(figures.load_s * 1000) / 1000},
                                {"weight_bytes", figures.info.weight_bytes}};
  // The plain keys are the runtime's, so that nobody takes the device's for them.
  if (figures.runtime) out.update(to_json(*figures.runtime, wanted));
  if (figures.device) out["device_alone"] = to_json(*figures.device, wanted);
  if (figures.profile.on) out["profile"] = profile_json(figures.profile);
  fmt::print("{}\n", out.dump());
}

}  // namespace troupe
