// From what a client sent to token ids: chat template, special tokens by trust, bos. Pure work over
// a loaded model, in slices: sessions share their threads with everybody, and the synchronous
// /tokenize ends when the runtime stops. When to go on, and when a prompt is too long, is decided
// by core/session/prompt_reading.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "actors/api/generation.hpp"
#include "actors/core/token_constraint.hpp"
#include "gpu/model/loaded_model.hpp"
#include "gpu/model/text/tokenization.hpp"

namespace troupe {

/// A prompt that cannot become tokens: the refusal and a sentence for the client.
struct prompt_error {
  core::refusal why = core::refusal::none;
  std::string message;
};

/// One prompt on its way to tokens. `model` and `request` must outlive it.
class prompt_tokenization {
 public:
  prompt_tokenization(const gpu::loaded_model& model, const core::generation_request& request)
      : model_(&model), request_(&request) {}

  /// Tokens that a chat certainly has, whether its template shows them or not, from its messages
  /// and bytes alone; counted closely only where that may be more than `context`. The template
  /// takes time for every message and copies all they say several times, so this comes first.
  std::size_t at_least_unread(std::uint32_t context) const;
  /// As gpu::tokenization::advance(); the first call renders a chat. Throws prompt_error.
  bool advance(std::size_t budget);
  /// As gpu::tokenization::at_least(), once advance() was called.
  std::size_t at_least() const;
  std::vector<token_id> take() { return std::move(tokens_); }

 private:
  void prepare();

  const gpu::loaded_model* model_;
  const core::generation_request* request_;
  bool prepared_ = false;
  std::vector<token_id> tokens_;  // bos in front, or those the client gave
  std::optional<gpu::tokenization> text_;
};

/// The first of `tokens` that the vocabulary does not have; `field` names them for the client.
std::optional<prompt_error> wrong_token(const std::vector<token_id>& tokens, std::uint32_t vocab,
                                        const char* field);

/// `allowed_token_ids` and `bad_words` of a request, with words as vLLM tokenizes them: at the
/// beginning of a text, and behind a space where that gives other tokens. Throws prompt_error.
core::token_constraint constraint_of(const gpu::tokenizer& vocabulary,
                                     const core::generation_request& request);

/// The text of tokens as a client reads it, special ones included: what is no UTF-8 is replaced.
std::string decoded_text(const gpu::tokenizer& vocabulary, const std::vector<token_id>& tokens);

/// The raw bytes of tokens, special ones included.
std::string token_text(const gpu::tokenizer& vocabulary, const token_sequence& tokens);

}  // namespace troupe
