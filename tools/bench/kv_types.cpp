// What each type of the KV cache costs in quality and saves in memory and time, beside the first of
// the list: the loss of a text and how far its distribution is from the first type's, and decode
// rates of the device alone, all types in turns so that a machine that changes its speed changes
// them all.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "gpu/cpu/backend_cpu.hpp"
#include "tools/bench/bench.hpp"
#include "tools/bench/build_facts.hpp"
#include "tools/bench/engine_rates.hpp"

namespace troupe {
namespace {

using rows = std::vector<std::vector<float>>;

struct quality {
  double loss = 0;   ///< nats a token
  double kl = 0;     ///< mean KL(first type, this one) of the next token
  double equal = 0;  ///< share of the positions with the same likeliest token
};

struct type_figures {
  std::string name;
  std::uint64_t token_bytes = 0;
  quality text;
  std::vector<std::vector<double>> windows;  ///< tokens/s, by plan
};

/// "K/V", or one name for both.
gpu::backend_options with_types(gpu::backend_options options, const std::string& name) {
  const auto cut = name.find('/');
  options.kv_cache_dtype_k = name.substr(0, cut);
  options.kv_cache_dtype_v = cut == std::string::npos ? name : name.substr(cut + 1);
  return options;
}

std::vector<token_id> read_text(const gpu::loaded_model& model, const kv_options& wanted) {
  std::ifstream in(wanted.text, std::ios::binary);
  if (!in) throw std::invalid_argument("--text: cannot read " + wanted.text);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  auto tokens = model.vocabulary.encode(text, false);
  tokens.resize(std::min<std::size_t>({tokens.size(), wanted.tokens, model.config.context}));
  if (tokens.size() < 2) throw std::invalid_argument("--text: " + wanted.text + " is too short");
  return tokens;
}

/// Log-probabilities at every position, in place of the logits.
rows score(const std::shared_ptr<const gpu::loaded_model>& model, gpu::backend_options options,
           const std::vector<token_id>& tokens) {
  const auto count = static_cast<std::uint32_t>(tokens.size());
  options.num_blocks = (count + options.block_size - 1) / options.block_size;
  gpu::cpu_backend device(model, options);
  rows out(count);
  device.observe_logits([&](std::uint32_t, std::uint32_t position, std::span<const float> logits) {
    const float top = *std::max_element(logits.begin(), logits.end());
    double total = 0;
    for (const float x : logits) total += std::exp(x - top);
    const float norm = top + static_cast<float>(std::log(total));
    auto& row = out[position];
    for (const float x : logits) row.push_back(x - norm);
  });
  gpu::step_batch batch;
  auto& slice = batch.slices.emplace_back();
  slice.tokens = tokens;
  slice.score_targets.assign(count, 0);
  for (std::uint32_t b = 0; b < options.num_blocks; ++b) slice.blocks.push_back(b);
  const auto step = device.plan(std::move(batch));
  device.run(*step);
  return out;
}

quality compare(const rows& first, const rows& other, const std::vector<token_id>& tokens) {
  quality out;
  for (std::size_t i = 0; i < first.size(); ++i) {
    double kl = 0;
    for (std::size_t t = 0; t < first[i].size(); ++t)
      kl += std::exp(double{first[i][t]}) * (double{first[i][t]} - other[i][t]);
    out.kl += kl;
    const auto best = [](const auto& row) {
      return std::max_element(row.begin(), row.end()) - row.begin();
    };
    out.equal += best(first[i]) == best(other[i]) ? 1 : 0;
    if (i + 1 < tokens.size()) out.loss -= other[i][static_cast<std::size_t>(tokens[i + 1])];
  }
  const auto count = static_cast<double>(first.size());
  return {out.loss / (count - 1), out.kl / count, out.equal / count};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Many streams with a middling context, one with nearly all of it.
std::vector<decode_plan> plans_of(const kv_options& wanted, std::uint32_t context) {
  constexpr std::uint32_t steps = 8;
  const auto longest = context - steps;
  return {{.streams = 8, .prompt = std::min(wanted.context, longest), .steps = steps, .windows = 1},
          {.streams = 1, .prompt = longest, .steps = steps, .windows = 1}};
}

void measure_rates(const std::shared_ptr<const gpu::loaded_model>& model,
                   const gpu::backend_options& options, const kv_options& wanted,
                   const std::vector<decode_plan>& plans, std::vector<type_figures>& figures) {
  std::vector<std::shared_ptr<gpu::backend>> devices;
  std::vector<std::unique_ptr<engine_rates>> engines;
  for (const auto& one : figures) {
    auto its = with_types(options, one.name);
    for (const auto& plan : plans)
      its.num_blocks = std::max(its.num_blocks, plan.blocks(its.block_size));
    devices.push_back(gpu::make_backend(model, its));
    engines.push_back(rates_of_device(model, devices.back()));
  }
  for (std::size_t p = 0; p < plans.size(); ++p)
    for (std::uint32_t run = 0; run <= wanted.runs; ++run)  // the first one warms up
      for (std::size_t i = 0; i < figures.size(); ++i) {
        const double rate = engines[i]->decode(plans[p]).front().tokens_per_s;
        if (run > 0) figures[i].windows[p].push_back(rate);
      }
}

}  // namespace

void bench_kv(const std::string& path, const gpu::backend_options& options,
              const kv_options& wanted, const std::string& command, bool json) {
  const auto model = gpu::load_model(path);
  const auto plans = plans_of(wanted, model->config.context);
  std::vector<type_figures> figures;
  const auto tokens = wanted.text.empty() ? std::vector<token_id>() : read_text(*model, wanted);
  rows first;
  for (const auto& name : wanted.types) {
    const auto its = with_types(options, name);
    auto& one = figures.emplace_back();
    one.name = name;
    one.token_bytes =
        gpu::kv_format_of(gpu::choose_device(its.device), model->config, its).token_bytes();
    one.windows.resize(plans.size());
    if (tokens.empty()) continue;
    auto scored = score(model, its, tokens);
    if (first.empty()) first = scored;
    one.text = compare(first, scored, tokens);
  }
  if (wanted.runs > 0) measure_rates(model, options, wanted, plans, figures);

  nlohmann::ordered_json out = {{"machine", facts_of_run(command).machine},
                                {"build", facts_of_run(command).build},
                                {"command", command},
                                {"text_tokens", tokens.size()},
                                {"types", nlohmann::ordered_json::array()}};
  if (!json)
    fmt::print("{}\n{}\n{:12}{:>9}{:>9}{:>10}{:>8}{:>20}{:>20}\n",
               out["machine"].get<std::string>(), command, "types", "bytes", "loss", "KL", "top-1",
               fmt::format("{} at {}, tok/s", plans[0].streams, plans[0].prompt),
               fmt::format("{} at {}, tok/s", plans[1].streams, plans[1].prompt));
  for (const auto& one : figures) {
    nlohmann::ordered_json row = {{"name", one.name}, {"kv_bytes_per_token", one.token_bytes}};
    if (!tokens.empty())
      row.update({{"loss", one.text.loss}, {"kl", one.text.kl}, {"top1", one.text.equal}});
    std::string rates;
    for (std::size_t p = 0; wanted.runs > 0 && p < plans.size(); ++p) {
      // Each window beside the first type's of the same turn.
      std::vector<double> ratios;
      for (std::size_t w = 0; w < one.windows[p].size(); ++w)
        ratios.push_back(one.windows[p][w] / figures[0].windows[p][w]);
      const double rate = median(one.windows[p]), ratio = median(ratios);
      rates += fmt::format("{:12.1f} ({:4.2f}x)", rate, ratio);
      row.update({{p == 0 ? "many_tokens_per_s" : "one_tokens_per_s", rate},
                  {p == 0 ? "many_ratio" : "one_ratio", ratio}});
    }
    if (!json)
      fmt::print("{:12}{:9}{:9.4f}{:10.6f}{:8.4f}{}\n", one.name, one.token_bytes, one.text.loss,
                 one.text.kl, one.text.equal, rates);
    out["types"].push_back(std::move(row));
  }
  if (json) fmt::print("{}\n", out.dump());
}

}  // namespace troupe
