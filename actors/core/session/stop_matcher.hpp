// Stop strings over a growing text: returns the text that is safe to show and holds back what may
// still become a stop, across token boundaries. The match that starts earliest wins, ties by the
// longer; with a boundary only matches that stand alone count. Linear in the text (one
// Knuth-Morris-Pratt automaton per stop); memory bounded by the longest stop and the character
// after it. Copyable.
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
  /// word: neither the character before the stop nor the one after it is a letter, digit or `_`.
  /// line: the stop begins a line and a line break (\n or \r) follows it. Start and end of the text
  /// are boundaries; a stop counts only when the character after it is known.
  stop_boundary boundary = stop_boundary::none;
  /// Whether a code point past ASCII is a letter or digit; null: all are. Of ASCII it is letters,
  /// digits and `_`.
  bool (*is_word)(char32_t) = nullptr;
  bool operator==(const stop_rules&) const = default;
};

class stop_matcher {
 public:
  explicit stop_matcher(stop_rules rules);

  /// Adds text; returns what is safe to show now (whole UTF-8 characters when given whole
  /// characters). After a match everything else is dropped. `may_match` = false: a stop that this
  /// text completes does not count.
  std::string push(std::string_view text, bool may_match = true);
  /// The end of the text: what was held back, without a stop that the end completes.
  std::string flush();
  /// The stop string that matched, once it is certain.
  const std::optional<std::string>& matched() const { return matched_; }

  bool operator==(const stop_matcher&) const = default;
  /// Everything that decides its future answers, except its rules; see state_hash.
  void add_to(state_hash&) const;

 private:
  // One automaton per stop: `fallback[k]` is the longest proper prefix of the stop that ends its
  // first k bytes; `state` is how many of its bytes the text ends with now, so the earliest match
  // that may still come begins at fed_ - state. `state` stays below the stop's length: a complete
  // stop has become a `match`.
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
  void accept(const match&);
  void decide_awaiting();
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
  std::vector<match> awaiting_;     // complete; the character after them is not known yet
  std::optional<match> candidate_;  // certain, unless an earlier or longer one completes
  std::optional<std::string> matched_;
};

}  // namespace troupe::core
