#include "actors/core/session/stop_matcher.hpp"

#include <algorithm>
#include <utility>

#include "config/bytes/utf8.hpp"

namespace troupe::core {

namespace {

// The prefix function of Knuth, Morris and Pratt, shifted by one: index k is about the first k
// bytes.
std::vector<std::uint32_t> fallback_table(const std::string& stop) {
  std::vector<std::uint32_t> table(stop.size() + 1, 0);
  std::uint32_t k = 0;
  for (std::size_t i = 1; i < stop.size(); ++i) {
    while (k > 0 && stop[k] != stop[i]) k = table[k];
    if (stop[k] == stop[i]) ++k;
    table[i + 1] = k;
  }
  return table;
}

bool is_line_break(char c) {
  return c == '\n' || c == '\r';
}

// The character that `text` (not empty) begins with; 0 for bytes that are no character, nullopt
// while some of its bytes are missing.
std::optional<char32_t> first_character(std::string_view text) {
  const auto step = next_utf8(text);
  if (step.state == utf8_state::incomplete) return std::nullopt;
  return step.state == utf8_state::whole ? step.code : 0;
}

char32_t last_character(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && text.size() - at < 4 && continues_utf8(text[at])) --at;
  return first_character(text.substr(at)).value_or(0);
}

}  // namespace

stop_matcher::stop_matcher(stop_rules rules)
    : include_stop_(rules.include_stop), boundary_(rules.boundary), is_word_(rules.is_word) {
  for (auto& stop : rules.stops) {
    if (stop.empty()) continue;  // would match everywhere
    auto table = fallback_table(stop);
    stops_.push_back({std::move(stop), std::move(table), 0});
  }
}

// ---- boundaries

bool stop_matcher::is_word(char32_t code) const {
  if (code >= 0x80) return is_word_ ? is_word_(code) : true;
  return (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z') ||
         (code >= '0' && code <= '9') || code == '_';
}

// May a match begin at held_[offset], by the text before it?
bool stop_matcher::opens(std::size_t offset) const {
  if (offset == 0) return held_opens_;
  if (boundary_ == stop_boundary::line) return is_line_break(held_[offset - 1]);
  return !is_word(last_character(std::string_view(held_).substr(0, offset)));
}

bool stop_matcher::may_start(std::uint64_t at) const {
  return boundary_ == stop_boundary::none || opens(static_cast<std::size_t>(at - held_start()));
}

// May a match end before the character at `end`, whose first byte is known? Nullopt while some of
// its bytes are missing.
std::optional<bool> stop_matcher::closes(std::uint64_t end) const {
  const auto behind = std::string_view(held_).substr(static_cast<std::size_t>(end - held_start()));
  if (boundary_ == stop_boundary::line) return is_line_break(behind[0]);
  const auto code = first_character(behind);
  if (!code) return std::nullopt;
  return !is_word(*code);
}

// ---- matches

// Is the stop complete with this byte? Starts that the boundary rules out are skipped at once, so
// that no text is held back for them.
bool stop_matcher::advance(automaton& a, char c) const {
  while (a.state > 0 && a.stop[a.state] != c) a.state = a.fallback[a.state];
  if (a.stop[a.state] == c) ++a.state;
  while (a.state > 0 && !may_start(fed_ - a.state)) a.state = a.fallback[a.state];
  if (a.state < a.stop.size()) return false;
  a.state = a.fallback[a.state];
  return true;
}

bool stop_matcher::beats_candidate(std::uint64_t start, std::size_t length) const {
  return start < candidate_->start ||
         (start == candidate_->start && length > stops_[candidate_->which].stop.size());
}

void stop_matcher::accept(const match& m) {
  if (!candidate_ || beats_candidate(m.start, stops_[m.which].stop.size())) candidate_ = m;
}

void stop_matcher::decide_awaiting() {
  std::erase_if(awaiting_, [this](const match& m) {
    const auto good = closes(m.start + stops_[m.which].stop.size());
    if (good == true) accept(m);
    return good.has_value();
  });
}

// May a match that is not certain yet beat the candidate? Then the candidate must wait: without
// this "earliest start wins" would depend on how the text is cut into tokens.
bool stop_matcher::undecided() const {
  return std::any_of(awaiting_.begin(), awaiting_.end(),
                     [&](const match& m) {
                       return beats_candidate(m.start, stops_[m.which].stop.size());
                     }) ||
         std::any_of(stops_.begin(), stops_.end(), [&](const automaton& a) {
           return a.state > 0 && beats_candidate(fed_ - a.state, a.stop.size());
         });
}

std::string stop_matcher::conclude() {
  const auto& stop = stops_[candidate_->which].stop;
  std::string out = held_.substr(0, static_cast<std::size_t>(candidate_->start - held_start()));
  if (include_stop_) out += stop;
  matched_ = stop;
  held_.clear();
  awaiting_.clear();
  return out;
}

// ---- text

std::string stop_matcher::push(std::string_view text, bool may_match) {
  if (matched_) return {};
  if (stops_.empty()) return std::string(text);
  for (const char c : text) {
    held_.push_back(c);
    ++fed_;
    if (!awaiting_.empty()) decide_awaiting();
    for (std::size_t i = 0; i < stops_.size(); ++i) {
      if (advance(stops_[i], c) && may_match) {
        const match m{fed_ - stops_[i].stop.size(), i};
        if (boundary_ == stop_boundary::none)
          accept(m);
        else
          awaiting_.push_back(m);
      }
    }
    if (candidate_ && !undecided()) return conclude();
  }
  return release();
}

// The text that no match can contain any more.
std::string stop_matcher::release() {
  auto from = candidate_ ? candidate_->start : fed_;
  for (const auto& m : awaiting_) from = std::min(from, m.start);
  for (const auto& a : stops_) from = std::min(from, fed_ - a.state);
  const auto safe = static_cast<std::size_t>(from - held_start());
  if (boundary_ != stop_boundary::none) held_opens_ = opens(safe);
  std::string out = held_.substr(0, safe);
  held_.erase(0, safe);
  return out;
}

std::string stop_matcher::flush() {
  if (matched_) return {};
  for (const auto& m : std::exchange(awaiting_, {}))
    accept(m);  // the end of the text is a boundary
  if (candidate_) return conclude();
  return std::exchange(held_, {});
}

void stop_matcher::add_to(state_hash& h) const {
  for (const auto& a : stops_) h.add(a.state);
  h.add(fed_)
      .add(std::string_view(held_))
      .add(held_opens_)
      .add(awaiting_.size())
      .add(matched_.has_value());
  for (const auto& m : awaiting_) h.add(m.start).add(m.which);
  if (candidate_) h.add(candidate_->start).add(candidate_->which);
}

}  // namespace troupe::core
