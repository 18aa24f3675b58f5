#include "tools/cli/profile_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace troupe {

namespace {

double rate(double amount, std::uint64_t nanoseconds) {
  return nanoseconds ? amount / static_cast<double>(nanoseconds) : 0;  // giga a second
}

double operations(const gpu::kernel_cost& cost) {
  return static_cast<double>(cost.dots + cost.floats);
}

/// Kernels that live on values just written have no limit worth a name.
bool has_limit(gpu::kernel_kind kind) {
  using enum gpu::kernel_kind;
  return kind == qkv || kind == attention || kind == o || kind == gate_up || kind == down ||
         kind == head;
}

double share_of_limit(const gpu::kernel_cost& cost, const gpu::machine_limits& limits) {
  return cost.nanoseconds
             ? gpu::least_seconds(cost, limits) * 1e9 / static_cast<double>(cost.nanoseconds)
             : 0;
}

double rounded(double x) {
  return std::round(x * 1000) / 1000;
}

std::string line_of(const gpu::device_profile& p, gpu::kernel_kind kind) {
  const gpu::kernel_cost& cost = p[kind];
  const double steps = static_cast<double>(p.steps), time = static_cast<double>(cost.nanoseconds);
  auto out =
      fmt::format("  {:<11}{:>11.1f}{:>8.1f}{:>12.1f}", gpu::name_of(kind), time / 1e6,
                  100 * time / static_cast<double>(std::max<std::uint64_t>(p.step_nanoseconds, 1)),
                  time / 1e3 / steps);
  if (cost.calls == 0) return out + "\n";
  out += fmt::format("{:>11.2f}{:>12.2f}{:>8.1f}{:>9.2f}",
                     static_cast<double>(cost.bytes) / 1e6 / steps, operations(cost) / 1e6 / steps,
                     rate(static_cast<double>(cost.bytes), cost.nanoseconds),
                     rate(operations(cost), cost.nanoseconds));
  if (has_limit(kind)) out += fmt::format("{:>8.0f} %", 100 * share_of_limit(cost, p.limits));
  return out + "\n";
}

}  // namespace

std::string profile_words(const gpu::device_profile& p) {
  if (!p.on || p.steps == 0) return "profile: no step ran\n";
  std::string out = fmt::format(
      "profile: {} steps with {} tokens, {:.3f} s on the device, {:.3f} s between steps\n"
      "  {:<11}{:>11}{:>8}{:>12}{:>11}{:>12}{:>8}{:>9}{:>10}\n",
      p.steps, p.rows, static_cast<double>(p.step_nanoseconds) / 1e9,
      static_cast<double>(p.idle_nanoseconds) / 1e9, "", "total ms", "% time", "us a step",
      "MB a step", "M op a step", "GB/s", "G op/s", "of limit");
  for (std::size_t i = 0; i < gpu::kernel_kinds; ++i) {
    if (p.kernels[i].nanoseconds) out += line_of(p, static_cast<gpu::kernel_kind>(i));
  }
  return out + fmt::format(
                   "  the machine's limits: {:.1f} G/s 8-bit and {:.1f} G/s 32-bit multiply-adds, "
                   "{:.1f} GB/s read\n",
                   p.limits.dots_per_s / 1e9, p.limits.floats_per_s / 1e9,
                   p.limits.bytes_per_s / 1e9);
}

nlohmann::ordered_json profile_json(const gpu::device_profile& p) {
  nlohmann::ordered_json kernels = nlohmann::ordered_json::object();
  for (std::size_t i = 0; i < gpu::kernel_kinds; ++i) {
    const auto kind = static_cast<gpu::kernel_kind>(i);
    const gpu::kernel_cost& cost = p[kind];
    if (cost.nanoseconds == 0) continue;
    auto& entry = kernels[gpu::name_of(kind)];
    entry = {{"ms", rounded(static_cast<double>(cost.nanoseconds) / 1e6)},
             {"us_per_step",
              rounded(static_cast<double>(cost.nanoseconds) / 1e3 / static_cast<double>(p.steps))},
             {"calls", cost.calls},
             {"bytes", cost.bytes},
             {"ops", cost.dots + cost.floats}};
    if (has_limit(kind)) entry["share_of_limit"] = rounded(share_of_limit(cost, p.limits));
  }
  return {{"steps", p.steps},
          {"tokens", p.rows},
          {"device_ms", rounded(static_cast<double>(p.step_nanoseconds) / 1e6)},
          {"between_steps_ms", rounded(static_cast<double>(p.idle_nanoseconds) / 1e6)},
          {"limits",
           {{"dot_g_ops_per_s", rounded(p.limits.dots_per_s / 1e9)},
            {"float_g_ops_per_s", rounded(p.limits.floats_per_s / 1e9)},
            {"read_gb_per_s", rounded(p.limits.bytes_per_s / 1e9)}}},
          {"kernels", std::move(kernels)}};
}

}  // namespace troupe
