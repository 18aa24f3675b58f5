#include "actors/core/stop_matcher.hpp"

#include <algorithm>

namespace troupe::core {

namespace {

// Classic prefix function, shifted by one so that index k speaks of the first k bytes.
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

}  // namespace

stop_matcher::stop_matcher(std::vector<std::string> stops, bool include_stop)
    : include_stop_(include_stop) {
  for (auto& stop : stops) {
    auto table = fallback_table(stop);
    stops_.push_back({std::move(stop), std::move(table), 0});
  }
}

void stop_matcher::advance(automaton& a, char c) const {
  if (a.state == a.stop.size()) a.state = a.fallback[a.state];
  while (a.state > 0 && a.stop[a.state] != c) a.state = a.fallback[a.state];
  if (a.stop[a.state] == c) ++a.state;
}

// Does a partial match live that would beat the candidate: earlier start, or the same start and
// longer?
bool stop_matcher::undecided() const {
  const auto length = stops_[candidate_->which].stop.size();
  return std::any_of(stops_.begin(), stops_.end(), [&](const automaton& a) {
    if (a.state == 0 || a.state == a.stop.size()) return false;
    const auto start = fed_ - a.state;
    return start < candidate_->start || (start == candidate_->start && a.stop.size() > length);
  });
}

std::string stop_matcher::conclude() {
  const auto& stop = stops_[candidate_->which].stop;
  std::string out = held_.substr(0, candidate_->start - (fed_ - held_.size()));
  if (include_stop_) out += stop;
  matched_ = stop;
  held_.clear();
  return out;
}

std::string stop_matcher::push(std::string_view text) {
  if (matched_) return {};
  if (stops_.empty()) return std::string(text);
  for (const char c : text) {
    held_.push_back(c);
    ++fed_;
    for (std::size_t i = 0; i < stops_.size(); ++i) {
      auto& a = stops_[i];
      advance(a, c);
      if (a.state != a.stop.size()) continue;
      const match m{fed_ - a.stop.size(), i};
      if (!candidate_ || m.start < candidate_->start ||
          (m.start == candidate_->start && a.stop.size() > stops_[candidate_->which].stop.size()))
        candidate_ = m;
    }
    if (candidate_ && !undecided()) return conclude();
  }
  // A complete stop that is not the candidate cannot exist here: its start would have made it one
  // or it lost.
  std::uint64_t hold_from = candidate_ ? candidate_->start : fed_;
  for (const auto& a : stops_)
    if (a.state < a.stop.size()) hold_from = std::min(hold_from, fed_ - a.state);
  const auto safe = static_cast<std::size_t>(hold_from - (fed_ - held_.size()));
  std::string out = held_.substr(0, safe);
  held_.erase(0, safe);
  return out;
}

std::string stop_matcher::flush() {
  if (matched_) return {};
  if (candidate_) return conclude();
  std::string out;
  out.swap(held_);
  return out;
}

}  // namespace troupe::core
