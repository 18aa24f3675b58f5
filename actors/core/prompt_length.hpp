// What a client reads when its prompt is longer than the model's context. The sentence has OpenAI's
// shape (clients look for its beginning) and stands here alone: a prompt is refused with it while
// it is tokenized ("at least N") and, with the exact count, when it is submitted.
#pragma once
#include <cstdint>
#include <string>

namespace troupe::core {

inline bool prompt_fits(std::uint64_t prompt_tokens, bool wants_answer, std::uint64_t context) {
  return prompt_tokens + (wants_answer ? 1 : 0) <= context;  // an answer needs room for one token
}

inline std::string prompt_too_long(std::uint64_t prompt_tokens, std::uint64_t context,
                                   bool exact = true) {
  return "This model's maximum context length is " + std::to_string(context) +
         " tokens, however the prompt has " + (exact ? "" : "at least ") +
         std::to_string(prompt_tokens) + " tokens";
}

}  // namespace troupe::core
