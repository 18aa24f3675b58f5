// What a server's Prometheus page says, under the names that this server uses. Pure: text in,
// numbers out.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace troupe::api_client {

/// Empty: this server has no such number, and what needs it is reported as not available. "a*b" is
/// a product.
struct metric_names {
  std::string running, waiting, used, allocated, released, leaked, total, steps, step_seconds;
};

class metrics_page {
 public:
  explicit metrics_page(std::string_view text);

  /// Sum over all labels; nothing when the page has no such name.
  std::optional<double> value(const std::string& name) const;
  /// Upper bound of the highest bucket that has grown since an earlier page; nothing when none has.
  std::optional<double> largest_since(const metrics_page& earlier,
                                      const std::string& histogram) const;
  /// Upper bound of the bucket that holds this share of the observations; nothing without
  /// observations.
  std::optional<double> quantile_bound(const std::string& histogram, double share) const;

 private:
  std::optional<double> sum_of(const std::string& name) const;

  std::unordered_map<std::string, double> sums_;
  std::unordered_map<std::string, std::vector<std::pair<double, double>>>
      buckets_;  // le, cumulative count
};

}  // namespace troupe::api_client
