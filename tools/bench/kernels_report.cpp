#include "tools/bench/kernels_report.hpp"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

namespace troupe {

namespace {

constexpr double giga = 1e9;

double seconds(const gpu::kernel_cost& cost) {
  return static_cast<double>(cost.nanoseconds) * 1e-9;
}
double macs(const gpu::kernel_cost& cost) {
  return static_cast<double>(cost.dots + cost.floats);
}
double per_second(double amount, const gpu::kernel_cost& cost) {
  return cost.nanoseconds ? amount / seconds(cost) : 0;
}
double microseconds_a_call(const gpu::kernel_cost& cost) {
  return cost.calls
             ? static_cast<double>(cost.nanoseconds) / 1000.0 / static_cast<double>(cost.calls)
             : 0;
}
double share_of_limit(const gpu::kernel_cost& cost, const gpu::machine_limits& limits) {
  return cost.nanoseconds ? gpu::least_seconds(cost, limits) / seconds(cost) : 0;
}
/// Which limit it is: a shorter time is not possible because of arithmetic, or because of reading.
bool bound_by_reading(const gpu::kernel_cost& cost, const gpu::machine_limits& limits) {
  gpu::kernel_cost arithmetic = cost;
  arithmetic.bytes = 0;
  return gpu::least_seconds(arithmetic, limits) < gpu::least_seconds(cost, limits);
}
bool reads_from_memory(gpu::kernel_kind kind) {
  using enum gpu::kernel_kind;
  return kind == qkv || kind == o || kind == gate_up || kind == down || kind == head ||
         kind == attention;
}

const kernel_figure* find(const std::vector<kernel_figure>& figures, const kernel_figure& like,
                          std::uint32_t threads) {
  for (const kernel_figure& f : figures) {
    if (f.name == like.name && f.setting == like.setting && f.threads == threads) return &f;
  }
  return nullptr;
}

std::string matmul_cells(const kernels_report& report, const gpu::kernel_cost& cost,
                         std::uint32_t threads) {
  const gpu::machine_limits& limits = report.limits_of(threads);
  return fmt::format(
      "{:>10.1f} {:>8.1f} {:>6.1f} {:>5.0f} % {}", microseconds_a_call(cost),
      per_second(macs(cost), cost) / giga, per_second(static_cast<double>(cost.bytes), cost) / giga,
      100 * share_of_limit(cost, limits), bound_by_reading(cost, limits) ? "r" : "a");
}

std::string other_cells(const kernels_report& report, const kernel_figure& f) {
  const auto share =
      reads_from_memory(f.kind)
          ? fmt::format("{:>5.0f} % {}", 100 * share_of_limit(f.cost, report.limits_of(f.threads)),
                        bound_by_reading(f.cost, report.limits_of(f.threads)) ? "r" : "a")
          : fmt::format("{:>9}", "");
  return fmt::format("{:>10.1f} {:>8.2f} {:>6.1f} {}", microseconds_a_call(f.cost),
                     per_second(macs(f.cost), f.cost) / giga,
                     per_second(static_cast<double>(f.cost.bytes), f.cost) / giga, share);
}

std::string heading(const kernels_report& report, const char* what) {
  auto line = fmt::format("\n{:<20} {:<28}", what, "");
  auto below = fmt::format("{:<20} {:<28}", "", "");
  for (const thread_peaks& p : report.peaks) {
    line +=
        fmt::format(" |{:>35}", fmt::format("{} thread{}", p.threads, p.threads == 1 ? "" : "s"));
    below += fmt::format(" |{:>10} {:>8} {:>6} {:>9}", "us a call", "G op/s", "GB/s", "of limit");
  }
  return line + "\n" + below + "\n";
}

std::string peak_line(const kernels_report& report, const std::string& what, double unit,
                      const char* unit_name, double (*value)(const thread_peaks&)) {
  auto line = fmt::format("{:<49}", what);
  for (const thread_peaks& p : report.peaks)
    line += fmt::format(" |{:>26.1f} {:<8}", value(p) / unit, unit_name);
  return line + "\n";
}

std::string peaks_table(const kernels_report& report) {
  std::string out = fmt::format("{:<49}", "\nthis machine at its best");
  for (const thread_peaks& p : report.peaks)
    out +=
        fmt::format(" |{:>35}", fmt::format("{} thread{}", p.threads, p.threads == 1 ? "" : "s"));
  out += "\n";
  out += peak_line(report, "8-bit multiply-adds, on registers", giga, "G/s",
                   [](const thread_peaks& p) { return p.limits.dots_per_s; });
  out += peak_line(report, "32-bit multiply-adds, on registers", giga, "G/s",
                   [](const thread_peaks& p) { return p.limits.floats_per_s; });
  out += peak_line(report,
                   fmt::format("reading the weights again and again ({:.0f} MB)",
                               static_cast<double>(report.weight_bytes) / 1e6),
                   giga, "GB/s", [](const thread_peaks& p) { return p.limits.bytes_per_s; });
  out += peak_line(
      report,
      fmt::format("reading a buffer of {:.0f} MB", static_cast<double>(report.large_bytes) / 1e6),
      giga, "GB/s", [](const thread_peaks& p) { return p.large_bytes_per_s; });
  return out +
         "Every step reads the weights once, so the third line is the limit of reading (r); the "
         "first two are those of\n"
         "arithmetic (a). The fourth is the memory behind all caches.\n";
}

std::string group_lines(const kernels_report& report, const std::vector<kernel_figure>& figures,
                        bool matmuls) {
  std::string out, last;
  for (const kernel_figure& f : figures) {
    if (f.threads != report.peaks.front().threads) continue;
    out += fmt::format("{:<20} {:<28}", f.name == last ? "" : f.name, f.setting);
    last = f.name;
    for (const thread_peaks& p : report.peaks) {
      const kernel_figure* at = find(figures, f, p.threads);
      out += " |";
      if (at) out += matmuls ? matmul_cells(report, at->cost, p.threads) : other_cells(report, *at);
    }
    out += "\n";
  }
  return out;
}

std::set<std::uint32_t> rows_of(const kernels_report& report) {
  std::set<std::uint32_t> rows;
  for (const kernel_figure& f : report.matmuls) rows.insert(f.rows);
  return rows;
}

std::string all_lines(const kernels_report& report) {
  std::string out;
  for (const std::uint32_t rows : rows_of(report)) {
    out += fmt::format("{:<20} {:<28}", out.empty() ? "all matrices" : "",
                       fmt::format("{} row{}", rows, rows == 1 ? "" : "s"));
    for (const thread_peaks& p : report.peaks) {
      auto all = all_matmuls(report, rows, p.threads);
      all.calls = 1;  // the time of them all
      out += " |" + matmul_cells(report, all, p.threads);
    }
    out += "\n";
  }
  return out;
}

nlohmann::ordered_json to_json(const kernels_report& report, const kernel_figure& f) {
  const auto rounded = [](double x) { return std::round(x * 1000) / 1000; };
  const gpu::machine_limits& limits = report.limits_of(f.threads);
  nlohmann::ordered_json out{
      {"kind", gpu::name_of(f.kind)},
      {"name", f.name},
      {"setting", f.setting},
      {"rows", f.rows},
      {"threads", f.threads},
      {"calls", f.cost.calls},
      {"us_per_call", rounded(microseconds_a_call(f.cost))},
      {"g_ops_per_s", rounded(per_second(macs(f.cost), f.cost) / giga)},
      {"gb_per_s", rounded(per_second(static_cast<double>(f.cost.bytes), f.cost) / giga)}};
  if (reads_from_memory(f.kind)) {
    out["share_of_limit"] = rounded(share_of_limit(f.cost, limits));
    out["limit"] = bound_by_reading(f.cost, limits) ? "reading" : "arithmetic";
  }
  return out;
}

}  // namespace

const gpu::machine_limits& kernels_report::limits_of(std::uint32_t threads) const {
  for (const thread_peaks& p : peaks) {
    if (p.threads == threads) return p.limits;
  }
  throw std::logic_error(fmt::format("no peaks were measured with {} threads", threads));
}

gpu::kernel_cost all_matmuls(const kernels_report& report, std::uint32_t rows,
                             std::uint32_t threads) {
  gpu::kernel_cost all;
  for (const kernel_figure& f : report.matmuls) {
    if (f.rows == rows && f.threads == threads) all += f.cost;
  }
  return all;
}

std::vector<floor_check> floors_of(const kernels_report& report) {
  std::vector<floor_check> floors;
  const thread_peaks& one = report.peaks.front();
  const thread_peaks& most = report.peaks.back();
  if (report.isa == "avx512-vnni") {
    floors.push_back({"8-bit multiply-adds of one core", "G/s",
                      one.limits.dots_per_s / one.threads / giga, 200});
  }
  for (const thread_peaks& p : report.peaks) {
    const auto all = all_matmuls(report, 64, p.threads);
    if (all.calls == 0) continue;
    const double peak = all.dots >= all.floats ? p.limits.dots_per_s : p.limits.floats_per_s;
    floors.push_back(
        {fmt::format("all matrices at 64 rows, {} thread(s), of the arithmetic peak", p.threads),
         "%", 100 * per_second(macs(all), all) / peak, 45});
  }
  if (most.decode_step_s > 0 && most.limits.bytes_per_s > 0) {
    floors.push_back(
        {fmt::format("weights read in a step of one sequence, {} thread(s), of the reading peak",
                     most.threads),
         "%",
         100 * static_cast<double>(report.weight_bytes) / most.decode_step_s /
             most.limits.bytes_per_s,
         65});
  }
  return floors;
}

std::string to_words(const kernels_report& report) {
  std::string out = fmt::format("machine  {}\nisa      {}\n", report.machine, report.isa);
  out += peaks_table(report);
  out += heading(report, "matrices");
  out += group_lines(report, report.matmuls, true) + all_lines(report);
  out += heading(report, "the rest");
  out += group_lines(report, report.others, false);
  out +=
      "\nOne call is one layer; all layers run in turn, so nothing is in a cache that would not be "
      "there in a step. Of\n"
      "several passes each call's fastest time counts: others on the machine only ever slow it "
      "down.\n\n";
  for (const thread_peaks& p : report.peaks) {
    out += fmt::format(
        "step of one sequence, {} thread(s): {:.2f} ms at best, {:.2f} ms usual, {:.1f} GB/s of "
        "weights\n",
        p.threads, p.decode_step_s * 1e3, p.decode_step_median_s * 1e3,
        static_cast<double>(report.weight_bytes) / p.decode_step_s / giga);
  }
  for (const floor_check& f : floors_of(report)) {
    out += fmt::format("{:<5} {}: {:.1f} {} (floor {:.0f})\n", f.holds() ? "ok" : "BELOW", f.what,
                       f.value, f.unit, f.least);
  }
  return out;
}

nlohmann::ordered_json to_json(const kernels_report& report) {
  const auto rounded = [](double x) { return std::round(x * 1000) / 1000; };
  nlohmann::ordered_json out{{"machine", report.machine},
                             {"isa", report.isa},
                             {"weight_bytes", report.weight_bytes},
                             {"large_bytes", report.large_bytes}};
  for (const thread_peaks& p : report.peaks) {
    out["peaks"].push_back({{"threads", p.threads},
                            {"dot_g_ops_per_s", rounded(p.limits.dots_per_s / giga)},
                            {"float_g_ops_per_s", rounded(p.limits.floats_per_s / giga)},
                            {"read_weights_gb_per_s", rounded(p.limits.bytes_per_s / giga)},
                            {"read_large_gb_per_s", rounded(p.large_bytes_per_s / giga)},
                            {"decode_step_ms", rounded(p.decode_step_s * 1e3)},
                            {"decode_step_median_ms", rounded(p.decode_step_median_s * 1e3)}});
  }
  for (const kernel_figure& f : report.matmuls) out["matrices"].push_back(to_json(report, f));
  for (const std::uint32_t rows : rows_of(report)) {
    for (const thread_peaks& p : report.peaks) {
      const kernel_figure all{gpu::kernel_kind::head,
                              "all matrices",
                              fmt::format("{} rows", rows),
                              rows,
                              p.threads,
                              all_matmuls(report, rows, p.threads)};
      auto entry = to_json(report, all);
      entry["kind"] = "all";
      entry["us"] = rounded(seconds(all.cost) * 1e6);
      out["all_matrices"].push_back(std::move(entry));
    }
  }
  for (const kernel_figure& f : report.others) out["others"].push_back(to_json(report, f));
  for (const floor_check& f : floors_of(report)) {
    out["floors"].push_back({{"what", f.what},
                             {"unit", f.unit},
                             {"value", rounded(f.value)},
                             {"floor", f.least},
                             {"holds", f.holds()}});
  }
  return out;
}

}  // namespace troupe
