// From what a client sent to token ids: chat template, special tokens by trust, bos. Pure work over
// a loaded model, in slices: sessions share their threads with everybody, and the synchronous
// /tokenize ends when the runtime stops.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "actors/api/generation.hpp"
#include "gpu/model/loaded_model.hpp"
#include "gpu/model/text/tokenization.hpp"

namespace troupe {

/// A prompt that cannot become tokens: the refusal and a sentence for the client.
struct prompt_error {
  core::refusal why = core::refusal::none;
  std::string message;
};

/// One prompt on its way to tokens. `model` must outlive it, and `request` the constructor.
class prompt_reading {
 public:
  /// Renders a chat, unless it has more messages than `context` tokens, or more bytes than so many
  /// tokens can have; whether the template shows them or not. `context` 0: no limit. Throws
  /// prompt_error.
  prompt_reading(const gpu::loaded_model& model, const core::generation_request& request,
                 std::uint32_t context);

  /// As gpu::tokenization::advance(). Throws prompt_error as soon as what is not read yet can't
  /// make the prompt fit.
  bool advance(std::size_t budget);
  std::vector<token_id> take() { return std::move(tokens_); }

 private:
  void refuse_when_long(std::size_t at_least) const;
  void refuse_long_chat(const std::vector<core::chat_message>&) const;

  const gpu::loaded_model* model_;
  std::uint32_t context_, answer_tokens_;
  std::vector<token_id> tokens_;  // bos in front, or those the client gave
  std::optional<gpu::tokenization> text_;
};

/// The raw text of tokens, special ones included.
std::string token_text(const gpu::tokenizer& vocabulary, const token_sequence& tokens);

}  // namespace troupe
