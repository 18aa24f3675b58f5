// At each point of a run with several possible continuations the chooser picks one, and records
// which and of how many. It follows a script first, then takes the oldest choice or uses a seed.
// The same scenario with the same picks is the same run; a script that meets another number of
// choices than it was recorded with throws. It knows only numbers, not what they stand for.
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
class random_numbers {
 public:
  explicit random_numbers(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(next() % n); }

 private:
  std::uint64_t state_;
};

class chooser {
 public:
  /// Takes the oldest choice (0) at every point after the script.
  explicit chooser(trace script, bool strict = true)
      : script_(std::move(script)), strict_(strict) {}
  explicit chooser(std::uint64_t seed) : random_(random_numbers(seed)) {}

  /// One of `n` > 0. The first `steady` choices deliver messages; the others are disturbances,
  /// which a seed picks less often.
  std::uint32_t pick(std::uint32_t n, std::uint32_t steady);
  const trace& taken() const { return taken_; }

 private:
  std::uint32_t by_seed_numbers(std::uint32_t n, std::uint32_t steady);

  trace script_, taken_;
  bool strict_ = true;
  std::optional<random_numbers> random_;
};

/// Depth first over all runs with at most `bound` deviations from the oldest choice: the script of
/// the run after `last`, or none when that was the last one.
std::optional<trace> next_script(trace last, std::uint32_t bound);

/// How often a run took another choice than the oldest.
std::uint32_t deviations(const trace&);
std::uint64_t hash_of(const trace&);

/// "12:3/7,40:1/2": point:pick/choices; the oldest choice everywhere else.
std::string to_text(const trace&);
/// Throws std::invalid_argument.
trace from_text(const std::string&);

}  // namespace troupe::sim
