// From what a client sent to token ids: chat template, special tokens by trust, bos. Pure functions over a loaded
// model, used by sessions and by the synchronous /tokenize.
#pragma once
#include <string>
#include <vector>

#include "actors/core/generation.hpp"
#include "gpu/make_backend.hpp"

namespace troupe {

/// A prompt that cannot become tokens: the refusal and a sentence for the client.
struct prompt_error {
  core::refusal why = core::refusal::none;
  std::string message;
};

/// Throws prompt_error.
std::vector<token_id> prompt_tokens(const gpu::loaded_model& model, const core::generation_request& request);

/// The raw text of tokens, special ones included.
std::string token_text(const gpu::tokenizer& vocabulary, const std::vector<token_id>& tokens);

}  // namespace troupe
