// Cumulative distributions as a plain SVG picture: two panels a row, logarithmic milliseconds to
// the right, share of the measurements upwards, P50, P95 and P99 marked. Pure text.
#pragma once
#include <string>
#include <vector>

namespace troupe {

struct cdf_panel {
  std::string title;
  std::vector<double> values_ms;
};

std::string svg_of(const std::string& title, std::vector<cdf_panel> panels);

}  // namespace troupe
