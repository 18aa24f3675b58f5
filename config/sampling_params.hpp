// What a request may ask of the sampler, with its defaults, and what the sampler answers. Plain values, shared by wire, scheduler and
// device so that one definition travels the whole path.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

namespace troupe {

/// Index into the model's vocabulary.
using token_id = std::int32_t;

/// Defaults are OpenAI's. Ranges are enforced where a request enters (`net/wire`), not here.
struct sampling_params {
  float temperature = 1.0f;  ///< 0 = greedy
  float top_p = 1.0f;        ///< 0 = only the top token
  float min_p = 0.0f;        ///< keep tokens with p >= min_p * p_max
  std::int32_t top_k = 0;    ///< 0 or -1 = off
  std::uint64_t seed = 0;    ///< with the position, the whole key of the random stream

  bool operator==(const sampling_params&) const = default;
};

/// A token with its natural-log probability under the raw distribution (before temperature and suppression).
struct scored_token {
  token_id token = -1;
  float logprob = 0.0f;                         ///< valid when log-probabilities were asked for
  std::vector<std::pair<token_id, float>> top;  ///< likeliest first, ties by lower id

  bool operator==(const scored_token&) const = default;
};

}  // namespace troupe
