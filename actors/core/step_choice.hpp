// Chooses which requests are in the next step and with how many tokens, and learns what a step
// costs. Pure functions and a value, owned by scheduler_machine. Knows neither blocks nor states,
// only candidates that could run. Prompts are cut into chunks and share steps with decode rows, as
// in Sarathi-Serve, so that a long prompt does not stop running streams.
#pragma once
#include <cstdint>
#include <vector>

#include "actors/api/ids.hpp"
#include "actors/core/state_hash.hpp"

namespace troupe::core {

/// Costs learned from finished steps, in nanoseconds, integral so that equal histories give equal
/// states. Each sample replaces half of the estimate and counts at most double and at least a
/// quarter of it, so an outlier fades in a few steps while growing contexts are followed.
class step_cost {
 public:
  void learn(std::uint32_t decode_rows, std::uint32_t prefill_tokens, std::uint64_t elapsed_us);
  std::uint64_t decode_row_ns() const { return decode_row_ns_; }
  std::uint64_t prefill_token_ns() const { return prefill_token_ns_; }
  bool operator==(const step_cost&) const = default;
  void add_to(state_hash& h) const { h.add(decode_row_ns_).add(prefill_token_ns_); }

 private:
  // The first estimates are slower than most machines, so that the first steps stay within the
  // time.
  std::uint64_t decode_row_ns_ = 2'000'000;
  std::uint64_t prefill_token_ns_ = 1'000'000;
};

/// A resident request with at least one token to compute and a block for it.
struct step_candidate {
  request_id request;
  bool decoding = false;      ///< one row, sampled
  std::uint32_t tokens = 0;   ///< to compute, within the blocks it holds
  std::int32_t priority = 0;  ///< lower goes first
};

struct step_budget {
  std::uint32_t tokens = 0;  ///< at least as many as there are candidates
  std::uint64_t time_us = 0;
  std::uint32_t chunk_min = 0;  ///< prefill tokens granted even when the time is up
};

struct step_share {
  request_id request;
  std::uint32_t tokens = 0;
};

/// Candidates come in rank order. Every decode row first, then prefill chunks within the budget of
/// tokens and time. The first prompt in rank gets the room, except that up to half of it goes to
/// others of the same priority that have less left to compute, while the first does not finish with
/// the step. What is left goes to the shortest of a priority first. So a long prompt does not hold
/// up short ones, and they cannot stop it. Empty only without candidates.
std::vector<step_share> choose_step(const std::vector<step_candidate>&, const step_budget&,
                                    const step_cost&);

}  // namespace troupe::core
