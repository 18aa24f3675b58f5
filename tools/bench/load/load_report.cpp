#include "tools/bench/load/load_report.hpp"

#include <fmt/core.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace troupe {
namespace {

double ms_between(steady::time_point from, steady::time_point to) {
  return std::chrono::duration<double, std::milli>(to - from).count();
}

double per_second(const load_result& result, std::uint64_t count) {
  return result.elapsed_s > 0 ? static_cast<double>(count) / result.elapsed_s : 0;
}

double rounded(double x) {
  return std::round(x * 1000) / 1000;
}

/// Milliseconds from one token to the next; 0 where there is no next. When this process was not
/// scheduled while the answer was made, all of it arrives in one read, and the time between its
/// pieces says nothing about the server: then the server's own timings count.
double time_per_token(const load_record& record) {
  if (record.completion_tokens < 2) return 0;
  if (record.pieces > 1 && record.last > record.first)
    return ms_between(record.first, record.last) / (record.completion_tokens - 1);
  return record.server_tokens_per_s > 0 ? 1000 / record.server_tokens_per_s : 0;
}

void add_whole(const load_options& options, const load_record& record, load_figures& out) {
  ++out.whole;
  const double ttft = ms_between(record.arrived, record.pieces ? record.first : record.ended);
  out.ttft.push_back(ttft);
  out.e2e.push_back(ms_between(record.arrived, record.ended));
  const double tpot = time_per_token(record);
  if (tpot > 0) out.tpot.push_back(tpot);
  out.inter_token.insert(out.inter_token.end(), record.gaps_ms.begin(), record.gaps_ms.end());
  out.within_slo += ttft <= options.slo_ttft_ms && tpot <= options.slo_tpot_ms;
}

std::string percentiles(const char* name, const std::vector<double>& values) {
  const auto d = distribution_of(values);
  return fmt::format("{:14}{:10.1f}{:10.1f}{:10.1f}{:10.1f}{:10.1f}\n", name, d.mean, d.p50, d.p95,
                     d.p99, d.max);
}

std::string kind_of_load(const load_options& options) {
  return options.rate > 0 ? fmt::format("open loop, {:g} requests/s", options.rate)
                          : fmt::format("closed loop, {} clients", options.clients);
}

}  // namespace

load_figures figures_of(const load_result& result) {
  load_figures out;
  for (const auto& record : result.records) {
    ++out.sent;
    out.prompt_tokens += record.prompt_tokens;
    out.output_tokens += record.completion_tokens;
    if (record.fault == "cancelled") {
      ++out.cancelled;
    } else if (!record.fault.empty()) {
      ++out.failed;
      ++out.errors[(record.slow ? "slow_" : "") + record.fault];
      if (out.first_error.empty())
        out.first_error = record.fault + (record.detail.empty() ? "" : ": " + record.detail);
    } else if (record.slow) {
      ++out.slow;
    } else {
      add_whole(result.options, record, out);
    }
  }
  return out;
}

nlohmann::ordered_json to_json(const load_result& result, const load_figures& figures) {
  const auto& options = result.options;
  const auto asked = figures.whole + figures.failed;
  nlohmann::ordered_json out = {
      {"date", result.facts.date},
      {"machine", result.facts.machine},
      {"build", result.facts.build},
      {"command", result.facts.command},
      {"url", options.url},
      {"model", options.model},
      {"endpoint", options.endpoint},
      {"load", options.rate > 0 ? "open" : "closed"},
      {"clients", options.rate > 0 ? 0 : options.clients},
      {"rate", options.rate},
      {"prompt_words", {options.words_min, options.words_max}},
      {"max_tokens", {options.tokens_min, options.tokens_max}},
      {"ignore_eos", result.ignored_eos},
      {"seed", options.seed},
      {"elapsed_s", rounded(result.elapsed_s)},
      {"requests",
       {{"sent", figures.sent},
        {"whole", figures.whole},
        {"slow_readers", figures.slow},
        {"cancelled", figures.cancelled},
        {"failed", figures.failed}}},
      {"errors", figures.errors},
      {"prompt_tokens", figures.prompt_tokens},
      {"output_tokens", figures.output_tokens},
      {"output_tokens_per_s", rounded(per_second(result, figures.output_tokens))},
      {"requests_per_s", rounded(per_second(result, figures.whole + figures.slow))},
      {"ttft_ms", to_json(distribution_of(figures.ttft))},
      {"tpot_ms", to_json(distribution_of(figures.tpot))},
      {"inter_token_ms", to_json(distribution_of(figures.inter_token))},
      {"e2e_ms", to_json(distribution_of(figures.e2e))},
  };
  out["goodput"] = {
      {"slo_ttft_ms", options.slo_ttft_ms},
      {"slo_tpot_ms", options.slo_tpot_ms},
      {"share",
       asked ? rounded(static_cast<double>(figures.within_slo) / static_cast<double>(asked)) : 0},
      {"requests_per_s", rounded(per_second(result, figures.within_slo))}};
  const auto tokens = static_cast<double>(std::max<std::uint64_t>(figures.output_tokens, 1));
  out["own_cpu"] = {
      {"seconds", rounded(result.own_cpu_s)},
      {"cores", result.elapsed_s > 0 ? rounded(result.own_cpu_s / result.elapsed_s) : 0},
      {"us_per_token", rounded(result.own_cpu_s * 1e6 / tokens)}};
  return out;
}

std::string to_words(const load_result& result, const load_figures& figures) {
  const auto& options = result.options;
  const auto asked = std::max<std::size_t>(figures.whole + figures.failed, 1);
  auto out = fmt::format("{}  {}\n{}\n{}\n", result.facts.date, result.facts.machine,
                         result.facts.build, result.facts.command);
  out += fmt::format("{}, {}: {}, prompts of {} to {} words, answers of {} to {} tokens{}\n",
                     options.model, options.endpoint, kind_of_load(options), options.words_min,
                     options.words_max, options.tokens_min, options.tokens_max,
                     result.ignored_eos ? ", end token ignored" : "");
  out += fmt::format(
      "requests      {} sent in {:.2f} s: {} whole, {} by slow readers, {} cancelled, {} failed\n",
      figures.sent, result.elapsed_s, figures.whole, figures.slow, figures.cancelled,
      figures.failed);
  for (const auto& [kind, count] : figures.errors)
    out += fmt::format("  error       {} x {}\n", count, kind);
  if (!figures.first_error.empty()) out += fmt::format("  the first   {}\n", figures.first_error);
  out += fmt::format("throughput    {:.1f} output tokens/s, {:.2f} requests/s\n",
                     per_second(result, figures.output_tokens),
                     per_second(result, figures.whole + figures.slow));
  out += fmt::format(
      "goodput       {:.1f} % of the requests, {:.2f}/s (first token within {:g} ms, {:g} ms per "
      "token)\n",
      100.0 * static_cast<double>(figures.within_slo) / static_cast<double>(asked),
      per_second(result, figures.within_slo), options.slo_ttft_ms, options.slo_tpot_ms);
  out += fmt::format("{:14}{:>10}{:>10}{:>10}{:>10}{:>10}\n", "milliseconds", "mean", "P50", "P95",
                     "P99", "max");
  out += percentiles("first token", figures.ttft) + percentiles("per token", figures.tpot) +
         percentiles("inter-token", figures.inter_token) + percentiles("end to end", figures.e2e);
  out += fmt::format("own CPU       {:.2f} s, {:.1f} % of a core, {:.1f} us per token\n",
                     result.own_cpu_s,
                     result.elapsed_s > 0 ? 100 * result.own_cpu_s / result.elapsed_s : 0,
                     result.own_cpu_s * 1e6 /
                         static_cast<double>(std::max<std::uint64_t>(figures.output_tokens, 1)));
  return out;
}

std::vector<cdf_panel> panels_of(const load_figures& figures) {
  return {{"time to first token", figures.ttft},
          {"time per output token", figures.tpot},
          {"inter-token latency", figures.inter_token},
          {"end to end", figures.e2e}};
}

}  // namespace troupe
