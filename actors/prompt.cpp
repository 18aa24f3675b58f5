#include "actors/prompt.hpp"

namespace troupe {
namespace {

std::vector<token_id> chat_tokens(const gpu::loaded_model& model,
                                  const std::vector<core::chat_message>& messages, bool add_generation_prompt) {
  std::vector<gpu::chat_turn> turns;
  turns.reserve(messages.size());
  for (const auto& message : messages) turns.push_back({message.role, message.content});
  try {
    return model.vocabulary.encode(model.chat.render(turns, add_generation_prompt));
  } catch (const gpu::template_error& e) {
    throw prompt_error{core::refusal::bad_template, std::string("the model's chat template refused the messages: ") + e.what()};
  }
}

}  // namespace

std::vector<token_id> prompt_tokens(const gpu::loaded_model& model, const core::generation_request& request) {
  std::vector<token_id> tokens;
  if (const auto* text = std::get_if<std::string>(&request.prompt)) {
    tokens = model.vocabulary.encode(*text, request.parse_special);
    if (request.add_special_tokens && model.vocabulary.add_bos() && model.vocabulary.bos() >= 0)
      tokens.insert(tokens.begin(), model.vocabulary.bos());
  } else if (const auto* ids = std::get_if<std::vector<token_id>>(&request.prompt)) {
    tokens = *ids;
  } else {
    tokens = chat_tokens(model, std::get<std::vector<core::chat_message>>(request.prompt),
                         request.add_generation_prompt);
  }
  const auto vocab = model.vocabulary.vocab_size();
  const auto check = [&](token_id token, const char* field) {
    if (token < 0 || static_cast<std::uint32_t>(token) >= vocab)
      throw prompt_error{core::refusal::invalid_token, std::string(field) + ": token id " + std::to_string(token) +
                                                           " is outside the vocabulary of " +
                                                           std::to_string(vocab) + " tokens"};
  };
  for (const auto token : tokens) check(token, "prompt");
  for (const auto token : request.stop_token_ids) check(token, "stop_token_ids");
  return tokens;
}

std::string token_text(const gpu::tokenizer& vocabulary, const std::vector<token_id>& tokens) {
  std::string text;
  for (const auto token : tokens) text += vocabulary.bytes(token);
  return text;
}

}  // namespace troupe
