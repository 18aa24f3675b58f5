#include "tools/chaos/report.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

namespace troupe::chaos {
namespace {

using json = nlohmann::ordered_json;

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1,
                         static_cast<std::size_t>(share * static_cast<double>(values.size())))];
}

double rounded(double value) {
  return std::round(value * 100) / 100;
}

json or_null(const std::optional<double>& value) {
  return value ? json(rounded(*value)) : json(nullptr);
}

std::string or_words(const std::optional<double>& value) {
  return value ? fmt::format("{:.0f}", *value) : std::string{"not available"};
}

json compared(const comparison& c) {
  return {{"compared", c.compared}, {"different", c.different}};
}

double kills_per_second(const tally& t) {
  return t.seconds > 0 ? static_cast<double>(t.kills) / t.seconds : 0;
}

std::optional<double> memory_ratio(const tally& t) {
  const auto pool = static_cast<double>(t.pool_bytes);
  if (!t.rss_first || !t.rss_last || *t.rss_first <= pool) return std::nullopt;
  return (*t.rss_last - pool) / (*t.rss_first - pool);
}

std::uint64_t visited(const tally& t) {
  return static_cast<std::uint64_t>(std::count_if(
      t.cells.begin(), t.cells.end(), [](const cell& c) { return c.kills + c.survived > 0; }));
}

json cells_json(const tally& t) {
  json cells = json::array();
  for (const auto& c : t.cells)
    cells.push_back({{"transport", name_of(c.over)},
                     {"manner", name_of(c.how)},
                     {"moment", name_of(c.when)},
                     {"kills", c.kills},
                     {"survived", c.survived},
                     {"sweeps", c.sweeps},
                     {"largest_n", c.largest_n}});
  return cells;
}

std::string matrix_words(const tally& t) {
  std::map<std::pair<transport, manner>, std::string> rows;
  for (const auto& c : t.cells)
    rows[{c.over, c.how}] += fmt::format("{:>8} (N<={:<4} {:>3})", c.kills, c.largest_n, c.sweeps);
  auto out = fmt::format("  {:<23}{:>8} {:<11}{:>8} {:<11}{:>8}\n", "kills (N up to, sweeps)",
                         "bytes", "", "events", "", "ms");
  for (const auto& [who, text] : rows)
    out += fmt::format("  {:<10} {:<12}{}\n", name_of(who.first), name_of(who.second), text);
  return out;
}

}  // namespace

std::string in_json(const settings& s, const tally& t) {
  json out{{"passed", t.failure_count == 0},
           {"target", s.target},
           {"url", t.url},
           {"seed", s.seed},
           {"kills", t.kills},
           {"waves", t.waves},
           {"clients_a_wave", s.wave},
           {"seconds", rounded(t.seconds)},
           {"kills_per_second", rounded(kills_per_second(t))},
           {"idle_after_last_kill_ms",
            {{"p50", rounded(quantile(t.idle_ms, 0.5))},
             {"p99", rounded(quantile(t.idle_ms, 0.99))},
             {"max", rounded(quantile(t.idle_ms, 1))},
             {"limit", rounded(t.idle_limit_ms)},
             {"late_waves", t.late_waves},
             {"late_waves", t.late_waves}}},
           {"step_p99_ms_at_most", or_null(t.step_p99_ms)},
           {"blocks_lost", or_null(t.blocks_lost)},
           {"blocks_leaked", or_null(t.blocks_leaked)},
           {"tokens_for_nobody", or_null(t.tokens_for_nobody)},
           {"most_tokens_in_flight", t.most_tokens_in_flight},
           {"neighbours", compared(t.neighbours)},
           {"survivors", compared(t.survivors)},
           {"pieces_of_killed", compared(t.pieces)},
           {"refused", t.refused},
           {"broken", t.broken},
           {"pool_request",
            {{"count", t.pool_requests},
             {"tokens", t.pool_request_tokens},
             {"pool_tokens", t.pool_tokens},
             {"last_ms", rounded(t.pool_request_ms)},
             {"note", t.pool_note}}},
           {"resident_memory",
            {{"first_bytes", or_null(t.rss_first)},
             {"last_bytes", or_null(t.rss_last)},
             {"pool_bytes", t.pool_bytes},
             {"ratio_without_pool", memory_ratio(t) ? json(*memory_ratio(t)) : json(nullptr)},
             {"limit", s.rss_limit}}},
           {"server_exit_code", t.server_exit ? json(*t.server_exit) : json(nullptr)},
           {"cells_visited", visited(t)},
           {"cells", cells_json(t)},
           {"failure_count", t.failure_count},
           {"failures", t.failures}};
  return out.dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string in_words(const settings& s, const tally& t) {
  std::string out;
  out += fmt::format("{}: {} kills in {} waves of {}, {:.1f} kills a second, seed {}\n", t.url,
                     t.kills, t.waves, s.wave, kills_per_second(t), s.seed);
  out += matrix_words(t);
  out += fmt::format(
      "  last kill to idle      P50 {:.0f}, P99 {:.0f}, max {:.0f} ms; limit {:.0f} ms, {} later\n",
      quantile(t.idle_ms, 0.5), quantile(t.idle_ms, 0.99), quantile(t.idle_ms, 1), t.idle_limit_ms,
      t.late_waves);
  out += fmt::format("  blocks lost            {}; leaked by the server's count: {}\n",
                     or_words(t.blocks_lost), or_words(t.blocks_leaked));
  out += fmt::format("  tokens for nobody      {} (in flight at a last kill: at most {:.0f})\n",
                     or_words(t.tokens_for_nobody), t.most_tokens_in_flight);
  out += fmt::format(
      "  answers that differ    {} of {} neighbours, {} of {} survivors, {} of {} pieces of the "
      "killed\n",
      t.neighbours.different, t.neighbours.compared, t.survivors.different, t.survivors.compared,
      t.pieces.different, t.pieces.compared);
  out += fmt::format("  refused, broken        {}, {}\n", t.refused, t.broken);
  if (t.pool_requests > 0)
    out += fmt::format(
        "  whole pool             {} requests of {} of {} tokens, the last in {:.0f} ms\n",
        t.pool_requests, t.pool_request_tokens, t.pool_tokens, t.pool_request_ms);
  if (!t.pool_note.empty()) out += fmt::format("  whole pool             {}\n", t.pool_note);
  if (const auto ratio = memory_ratio(t))
    out += fmt::format(
        "  resident memory        {:.1f} MiB after {} kills, {:.1f} MiB at the end, pool of {:.1f} "
        "MiB not counted: {:+.2f} %\n",
        (*t.rss_first - static_cast<double>(t.pool_bytes)) / (1 << 20), s.rss_after,
        (*t.rss_last - static_cast<double>(t.pool_bytes)) / (1 << 20),
        static_cast<double>(t.pool_bytes) / (1 << 20), 100 * (*ratio - 1));
  if (t.server_exit) out += fmt::format("  exit code after TERM   {}\n", *t.server_exit);
  for (const auto& failure : t.failures) out += fmt::format("  FAILED {}\n", failure);
  if (t.failure_count > t.failures.size())
    out += fmt::format("  ... and {} more\n", t.failure_count - t.failures.size());
  out += t.failure_count == 0 ? "passed\n" : fmt::format("{} failures\n", t.failure_count);
  return out;
}

std::string progress_line(const settings& s, const tally& t) {
  return fmt::format(
      "wave {}: {} of {} kills, {:.1f} a second, idle {:.0f} ms after the last, {} failures",
      t.waves, t.kills, s.kills, kills_per_second(t), t.idle_ms.empty() ? 0 : t.idle_ms.back(),
      t.failure_count);
}

std::optional<double> resident_bytes(int pid) {
  std::ifstream statm{fmt::format("/proc/{}/statm", pid)};
  double pages = 0, resident = 0;
  if (pid <= 0 || !(statm >> pages >> resident)) return std::nullopt;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE));
}

}  // namespace troupe::chaos
