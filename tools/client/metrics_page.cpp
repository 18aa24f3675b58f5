#include "tools/client/metrics_page.hpp"

#include <cstdlib>
#include <limits>

namespace troupe::api_client {
namespace {

double number(std::string_view text) {
  return std::strtod(std::string{text}.c_str(), nullptr);
}

}  // namespace

metrics_page::metrics_page(std::string_view text) {
  while (!text.empty()) {
    const auto end = text.find('\n');
    const auto line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.empty() || line.front() == '#') continue;
    const auto name_end = line.find_first_of("{ ");
    // Label values may hold blanks; the value stands behind the labels.
    const auto labels_end = line.find_last_of('}');
    const auto value_at = line.find(' ', labels_end == std::string_view::npos ? 0 : labels_end);
    if (name_end == std::string_view::npos || value_at == std::string_view::npos) continue;
    const std::string name{line.substr(0, name_end)};
    const auto value = number(line.substr(value_at + 1));
    constexpr std::string_view bound = "le=\"";
    if (name.ends_with("_bucket"))
      if (const auto le = line.find(bound); le != std::string_view::npos) {
        const auto edge = line.substr(le + bound.size());
        buckets_[name.substr(0, name.size() - 7)].emplace_back(
            edge.starts_with("+Inf") ? std::numeric_limits<double>::infinity() : number(edge),
            value);
      }
    sums_[name] += value;
  }
}

std::optional<double> metrics_page::sum_of(const std::string& name) const {
  const auto found = sums_.find(name);
  if (name.empty() || found == sums_.end()) return std::nullopt;
  return found->second;
}

std::optional<double> metrics_page::value(const std::string& name) const {
  const auto times = name.find('*');
  if (times == std::string::npos) return sum_of(name);
  const auto a = sum_of(name.substr(0, times)), b = sum_of(name.substr(times + 1));
  return a && b ? std::optional{*a * *b} : std::nullopt;
}

std::optional<double> metrics_page::quantile_bound(const std::string& histogram,
                                                   double share) const {
  const auto found = buckets_.find(histogram);
  if (found == buckets_.end() || found->second.empty() || found->second.back().second == 0)
    return std::nullopt;
  for (const auto& [edge, count] : found->second)
    if (count >= share * found->second.back().second) return edge;
  return found->second.back().first;
}

std::optional<double> metrics_page::largest_since(const metrics_page& earlier,
                                                  const std::string& histogram) const {
  const auto now = buckets_.find(histogram), then = earlier.buckets_.find(histogram);
  if (now == buckets_.end() || then == earlier.buckets_.end()) return std::nullopt;
  const auto& a = then->second;
  const auto& b = now->second;
  if (a.size() != b.size()) return std::nullopt;
  // The counts are cumulative: the first bucket that holds all the growth is the one of the
  // largest.
  for (std::size_t i = 0; i < b.size(); ++i)
    if (b.back().second > a.back().second &&
        b[i].second - a[i].second >= b.back().second - a.back().second)
      return b[i].first;
  return std::nullopt;
}

}  // namespace troupe::api_client
