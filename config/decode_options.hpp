// What a request wants of decoding: how tokens are drawn, which are reported, what ends the answer
// by token or by count. Defined once for wire, session, scheduler and device; ranges are enforced
// where a request enters (net/api). Text stops and repetition are the session's and not in here.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "config/sampling_params.hpp"
#include "config/shared_sequence.hpp"
#include "config/shared_value.hpp"

namespace troupe {

struct decode_options {
  sampling_params sampling;
  std::optional<std::uint32_t> max_tokens;  ///< none: the room left; 0 only scores the prompt
  std::uint32_t min_tokens = 0;             ///< no end or stop token counts before so many
  std::vector<token_id> stop_token_ids;     ///< sorted once the scheduler has it
  bool ignore_eos = false;
  std::int32_t top_logprobs =
      -1;  ///< -1: no log-probabilities; 0..20: the token's and the n likeliest
  std::optional<confidence_stop> confidence;
  bool operator==(const decode_options&) const = default;
};

/// As it travels from the scheduler's record of a request into every step's plan.
using shared_decode = shared_value<decode_options>;
/// A prompt, or a prompt and its answer so far.
using token_sequence = shared_sequence<token_id>;

}  // namespace troupe
