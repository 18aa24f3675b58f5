// Stop strings over a growing text: answers what may be shown, holds back what may still become a stop. The match that
// starts earliest wins, ties by the longer. Linear in the text; memory bounded by the longest stop. Copyable.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::core {

class stop_matcher {
 public:
  explicit stop_matcher(std::vector<std::string> stops, bool include_stop = false);

  /// Adds text; answers what is safe to show now (whole UTF-8 characters when fed whole characters). After a match
  /// everything else is dropped.
  std::string push(std::string_view text);
  /// The end without a match: what was held back.
  std::string flush();
  /// The stop string that matched, once it is certain.
  const std::optional<std::string>& matched() const { return matched_; }

  bool operator==(const stop_matcher&) const = default;

 private:
  std::vector<std::string> stops_;
  bool include_stop_ = false;
  std::string held_;
  std::optional<std::string> matched_;
};

}  // namespace troupe::core
