// One row of logits and what is asked of the sampler about it: what the sampler's tests share.
#pragma once
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "gpu/cpu/sampler.hpp"

namespace troupe::gpu::test {

inline constexpr float infinity = std::numeric_limits<float>::infinity();

struct question {
  std::vector<float> logits;
  sequence_slice slice;
  token_id target = -1;

  row_answer ask(std::uint32_t position = 1) const {
    sampler s(select_kernels("auto"));
    std::vector<float> row = logits;
    return s.answer(
        {row.data(), static_cast<std::uint32_t>(row.size()), &slice, target, true, position});
  }
  std::optional<token_id> token(std::uint32_t position = 1) const {
    const auto answer = ask(position);
    if (!answer.sampled) return std::nullopt;
    return answer.sampled->token;
  }
  /// Counts of each token over many positions.
  std::vector<int> counts(int draws) const {
    std::vector<int> out(logits.size(), 0);
    for (int i = 0; i < draws; ++i)
      ++out[static_cast<std::size_t>(*token(static_cast<std::uint32_t>(i)))];
    return out;
  }
  std::set<token_id> seen(int draws) const {
    std::set<token_id> out;
    for (int i = 0; i < draws; ++i) out.insert(*token(static_cast<std::uint32_t>(i)));
    return out;
  }
};

/// log of the probabilities given, in a shuffled but fixed order of ids.
inline question with_probabilities(const std::vector<double>& p) {
  question q;
  for (const double x : p) q.logits.push_back(static_cast<float>(std::log(x)));
  q.slice.decode.edit().sampling.seed = 77;
  return q;
}

}  // namespace troupe::gpu::test
