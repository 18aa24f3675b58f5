// Stop strings over a growing text: answers what may be shown, holds back what may still become a stop. The match that
// starts earliest wins, ties by the longer. Linear in the text; memory bounded by the longest stop. Copyable.
#pragma once
#include <cstddef>
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
  // One automaton per stop: `fallback[k]` is the longest proper prefix of the stop that ends its first k bytes, `state`
  // how many of its bytes the text ends with now, so fed_ - state is where the earliest possible match starts.
  struct automaton {
    std::string stop;
    std::vector<std::uint32_t> fallback;
    std::uint32_t state = 0;
    bool operator==(const automaton&) const = default;
  };
  struct match {
    std::uint64_t start = 0;
    std::size_t which = 0;
    bool operator==(const match&) const = default;
  };

  void advance(automaton&, char c) const;
  bool undecided() const;
  std::string conclude();

  std::vector<automaton> stops_;
  bool include_stop_ = false;
  std::uint64_t fed_ = 0;            // bytes seen so far
  std::string held_;                 // the last bytes seen, not yet shown
  std::optional<match> candidate_;   // complete, but an earlier or longer one may still come
  std::optional<std::string> matched_;
};

}  // namespace troupe::core
