// What one event of an OpenAI stream says, without a full parse: the load generator shares the
// cores with the server it measures. Pure.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace troupe {

/// What one `data:` payload says.
struct stream_event {
  bool text = false;      ///< carries a piece of the answer that is not empty
  bool finished = false;  ///< names a finish_reason
  bool done = false;      ///< [DONE]
  bool error = false;     ///< the server reports an error inside the stream
  std::optional<std::uint32_t> prompt_tokens, completion_tokens;
  std::optional<double> tokens_per_s;  ///< of the decode, as the server's timings tell it
};

/// `payload`: the data of one event.
stream_event read_event(std::string_view payload);

}  // namespace troupe
