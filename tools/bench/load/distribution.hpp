// What a set of measurements comes to. A value; percentiles are measured ones (nearest rank), never
// interpolated.
#pragma once
#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace troupe {

struct distribution {
  std::size_t count = 0;
  double mean = 0, p50 = 0, p95 = 0, p99 = 0, max = 0;  ///< 0 where there is nothing
};

distribution distribution_of(std::vector<double> values);
nlohmann::ordered_json to_json(const distribution&);

}  // namespace troupe
