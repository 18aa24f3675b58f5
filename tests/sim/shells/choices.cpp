#include "tests/sim/shells/choices.hpp"

#include <algorithm>
#include <cstdio>

#include "config/bytes/mix64.hpp"

namespace troupe::sim {
namespace {

// Under a seed, one choice in this many is a disturbance: rare enough that runs get somewhere.
constexpr std::uint32_t disturb_one_in = 14;

}  // namespace

std::uint64_t random_numbers::next() {
  return mix64(state_ += golden_step);
}

std::uint32_t chooser::pick(std::uint32_t n, std::uint32_t steady) {
  std::uint32_t out = 0;
  if (taken_.size() < script_.size()) {
    const auto& wanted = script_[taken_.size()];
    if (wanted.of != 0 && wanted.of != n && strict_)
      throw divergence("replay diverged: point " + std::to_string(taken_.size()) + " had " +
                       std::to_string(wanted.of) + " choices and has " + std::to_string(n) +
                       " now");
    out = std::min<std::uint32_t>(wanted.taken, n - 1);
  } else if (random_) {
    out = by_seed_numbers(n, steady);
  }
  taken_.push_back({static_cast<std::uint16_t>(out), static_cast<std::uint16_t>(n)});
  return out;
}

std::uint32_t chooser::by_seed_numbers(std::uint32_t n, std::uint32_t steady) {
  if (steady == 0 || steady == n) return random_->below(n);
  if (random_->below(disturb_one_in) == 0) return steady + random_->below(n - steady);
  return random_->below(steady);
}

std::optional<trace> next_script(trace last, std::uint32_t bound) {
  auto left = deviations(last);
  while (!last.empty()) {
    auto& end = last.back();
    const auto before = left - (end.taken > 0 ? 1 : 0);
    if (end.taken + 1 < end.of && before + 1 <= bound) {
      ++end.taken;
      return last;
    }
    left = before;
    last.pop_back();
  }
  return std::nullopt;
}

std::uint32_t deviations(const trace& run) {
  return static_cast<std::uint32_t>(
      std::count_if(run.begin(), run.end(), [](choice c) { return c.taken > 0; }));
}

std::uint64_t hash_of(const trace& run) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const auto c : run) hash = (hash ^ (std::uint64_t{c.taken} << 16 | c.of)) * 0x100000001b3ull;
  return hash ^ (hash >> 31);
}

std::string to_text(const trace& run) {
  std::string out;
  for (std::size_t i = 0; i < run.size(); ++i)
    if (run[i].taken > 0)
      out += (out.empty() ? "" : ",") + std::to_string(i) + ":" + std::to_string(run[i].taken) +
             "/" + std::to_string(run[i].of);
  return out.empty() ? "oldest" : out;
}

trace from_text(const std::string& text) {
  trace out;
  if (text == "oldest") return out;
  const char* at = text.c_str();
  while (*at != '\0') {
    unsigned point = 0, taken = 0, of = 0;
    int read = 0;
    if (std::sscanf(at, "%5u:%5u/%5u%n", &point, &taken, &of, &read) != 3 || taken >= of ||
        point > 20000 || of > 60000 || point < out.size())
      throw std::invalid_argument("--trace: '" + std::string(at) +
                                  "' is not point:choice/choices, in order");
    out.resize(point);  // of = 0: not checked
    out.push_back({static_cast<std::uint16_t>(taken), static_cast<std::uint16_t>(of)});
    at += read;
    if (*at == ',') ++at;
  }
  return out;
}

}  // namespace troupe::sim
