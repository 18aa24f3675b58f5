#include "tools/bench/load/distribution.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>

namespace troupe {

distribution distribution_of(std::vector<double> values) {
  distribution out;
  out.count = values.size();
  if (values.empty()) return out;
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    const auto rank =
        static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
    return values[std::max<std::size_t>(rank, 1) - 1];
  };
  out.mean =
      std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
  out.p50 = at(0.50);
  out.p95 = at(0.95);
  out.p99 = at(0.99);
  out.max = values.back();
  return out;
}

nlohmann::ordered_json to_json(const distribution& d) {
  const auto rounded = [](double x) { return std::round(x * 1000) / 1000; };
  return {{"count", d.count},      {"mean", rounded(d.mean)}, {"p50", rounded(d.p50)},
          {"p95", rounded(d.p95)}, {"p99", rounded(d.p99)},   {"max", rounded(d.max)}};
}

}  // namespace troupe
