// What a request may ask of the sampler, with its defaults, and what the sampler answers. Plain
// values, shared by wire, scheduler and device so that one definition travels the whole path.
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

namespace troupe {

/// Index into the model's vocabulary.
using token_id = std::int32_t;

/// Defaults are OpenAI's. Ranges are enforced where a request enters (`net/api`), not here.
struct sampling_params {
  float temperature = 1.0f;         ///< 0 = greedy
  float top_p = 1.0f;               ///< 0 = only the top token
  float min_p = 0.0f;               ///< keep tokens with p >= min_p * p_max
  std::int32_t top_k = 0;           ///< 0 or -1 = off
  std::uint64_t seed = 0;           ///< with the position, the whole key of the random stream
  float repetition_penalty = 1.0f;  ///< over prompt and answer: a seen token's positive logit is
                                    ///< divided, a negative multiplied
  float presence_penalty =
      0.0f;  ///< over the answer only: subtracted once from a seen token's logit
  float frequency_penalty =
      0.0f;  ///< over the answer only: subtracted for each time a token was seen
  std::vector<std::pair<token_id, float>>
      logit_bias;  ///< added to the raw logit; sorted by token, no token twice

  /// The sampler needs the tokens before the sampled one.
  bool needs_history() const {
    return repetition_penalty != 1.0f || presence_penalty != 0.0f || frequency_penalty != 0.0f;
  }
  bool operator==(const sampling_params&) const = default;
};

/// `stop_confidence`: end when for `steps` steps in a row the `top_k` likeliest tokens together had
/// less than `mass` of the raw distribution.
struct confidence_stop {
  std::uint32_t top_k = 1;
  float mass = 0.25f;
  std::uint32_t steps = 5;
  bool operator==(const confidence_stop&) const = default;
};

/// `stop_repetition`: end when the last `ngram` tokens stood `times` times in a row.
struct repetition_stop {
  std::uint32_t ngram = 1;
  std::uint32_t times = 2;
  bool operator==(const repetition_stop&) const = default;
};

/// `stop_boundary`: where a stop string counts (none: anywhere).
enum class stop_boundary : std::uint8_t { none, word, line };

/// `on_disconnect`: whether the blocks a request brought into the prefix cache stay there when its
/// client leaves.
enum class on_disconnect : std::uint8_t { stop, keep_prefix };

/// A token with its natural-log probability under the raw distribution (before temperature and
/// suppression).
struct scored_token {
  token_id token = -1;
  float logprob = 0.0f;                         ///< valid when log-probabilities were asked for
  std::vector<std::pair<token_id, float>> top;  ///< likeliest first, ties by lower id
  float mass = 0.0f;  ///< probability of the likeliest `mass_top_k` together, when asked for

  bool operator==(const scored_token&) const = default;
};

}  // namespace troupe
