// Stop strings over a growing text: answers what may be shown, holds back what may still become a
// stop. The match that starts earliest wins, ties by the longer; with a boundary only matches that
// stand alone count. Linear in the text; memory bounded by the longest stop and the character
// behind it. Copyable.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "actors/core/state_hash.hpp"
#include "config/sampling_params.hpp"

namespace troupe::core {

struct stop_rules {
  std::vector<std::string> stops;  ///< empty ones stop nothing
  bool include_stop = false;       ///< the stop is shown
  /// word: no word character stands before or behind the stop. line: a line begins with it and a
  /// line break (\n or \r) follows it. Start and end of the text are boundaries; the character
  /// behind a stop is awaited before it counts.
  stop_boundary boundary = stop_boundary::none;
  /// Whether a code point past ASCII is a letter or digit; null: all are. Of ASCII it is letters,
  /// digits and `_`.
  bool (*is_word)(char32_t) = nullptr;
  bool operator==(const stop_rules&) const = default;
};

class stop_matcher {
 public:
  explicit stop_matcher(stop_rules rules);

  /// Adds text; answers what is safe to show now (whole UTF-8 characters when fed whole
  /// characters). After a match everything else is dropped. `may_match` = false: a stop that this
  /// text completes does not count.
  std::string push(std::string_view text, bool may_match = true);
  /// The end of the text: what was held back, without the stop that the end has decided for.
  std::string flush();
  /// The stop string that matched, once it is certain.
  const std::optional<std::string>& matched() const { return matched_; }

  bool operator==(const stop_matcher&) const = default;
  /// All that decides what it will answer, but for its rules; see state_hash.
  void add_to(state_hash&) const;

 private:
  // One automaton per stop: `fallback[k]` is the longest proper prefix of the stop that ends its
  // first k bytes, `state` how many of its bytes the text ends with now, so fed_ - state is where
  // the earliest match begins that may still come. Always below the stop's length: what is complete
  // has become a `match`.
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

  bool advance(automaton&, char c) const;
  bool may_start(std::uint64_t at) const;
  bool opens(std::size_t held_offset) const;
  std::optional<bool> closes(std::uint64_t end) const;
  bool is_word(char32_t code) const;
  bool beats_candidate(std::uint64_t start, std::size_t length) const;
  void settle(const match&);
  void settle_awaiting();
  bool undecided() const;
  std::string conclude();
  std::string release();
  std::uint64_t held_start() const { return fed_ - held_.size(); }

  std::vector<automaton> stops_;
  bool include_stop_ = false;
  stop_boundary boundary_ = stop_boundary::none;
  bool (*is_word_)(char32_t) = nullptr;
  std::uint64_t fed_ = 0;           // bytes seen so far
  std::string held_;                // the last bytes seen, not yet shown
  bool held_opens_ = true;          // the text before held_ lets a match begin there
  std::vector<match> awaiting_;     // complete, the character behind them is not here yet
  std::optional<match> candidate_;  // counts, but an earlier or longer one may still come
  std::optional<std::string> matched_;
};

}  // namespace troupe::core
