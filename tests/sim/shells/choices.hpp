// Where a run may go one way or another: the chooser answers, and writes down what it answered and
// out of how many. Follows a script first, then the oldest choice or a seed. The same scenario and
// the same answers are the same run; a script that meets another number of choices than it was
// written with throws. Never looks at what is chosen.
#pragma once
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe::sim {

struct choice {
  std::uint16_t taken = 0;
  std::uint16_t of = 0;
  bool operator==(const choice&) const = default;
};
using trace = std::vector<choice>;

/// A replay met another number of choices than the run it repeats.
class divergence : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Splitmix64: the same numbers everywhere.
class dice {
 public:
  explicit dice(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(next() % n); }

 private:
  std::uint64_t state_;
};

class chooser {
 public:
  /// The oldest choice (0) at every point behind the script.
  explicit chooser(trace script, bool strict = true)
      : script_(std::move(script)), strict_(strict) {}
  explicit chooser(std::uint64_t seed) : dice_(dice(seed)) {}

  /// One of `n` > 0. The first `steady` go on with what is under way; the others disturb it and are
  /// rarer under a seed.
  std::uint32_t pick(std::uint32_t n, std::uint32_t steady);
  const trace& taken() const { return taken_; }

 private:
  std::uint32_t by_dice(std::uint32_t n, std::uint32_t steady);

  trace script_, taken_;
  bool strict_ = true;
  std::optional<dice> dice_;
};

/// Depth first over all runs that leave the oldest choice at most `bound` times: the script of the
/// next one after `last`, or none when that was all.
std::optional<trace> next_script(trace last, std::uint32_t bound);

/// How often a run left the oldest choice.
std::uint32_t deviations(const trace&);
std::uint64_t hash_of(const trace&);

/// "12:3/7,40:1/2": point, answer, choices; everything else is the oldest one.
std::string to_words(const trace&);
/// Throws std::invalid_argument.
trace from_words(const std::string&);

}  // namespace troupe::sim
