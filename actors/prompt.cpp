#include "actors/prompt.hpp"

#include <utility>

namespace troupe {
namespace {

std::vector<gpu::template_span> rendered(const gpu::loaded_model& model,
                                         const std::vector<core::chat_message>& messages,
                                         bool add_generation_prompt) {
  std::vector<gpu::chat_turn> turns;
  turns.reserve(messages.size());
  for (const auto& message : messages) turns.push_back({message.role, message.content});
  try {
    return model.chat.render(turns, add_generation_prompt);
  } catch (const gpu::template_error& e) {
    throw prompt_error{core::refusal::bad_template,
                       std::string("the model's chat template refused the messages: ") + e.what()};
  }
}

void check_ids(const std::vector<token_id>& tokens, std::uint32_t vocab, const char* field) {
  for (const auto token : tokens)
    if (token < 0 || static_cast<std::uint32_t>(token) >= vocab)
      throw prompt_error{core::refusal::invalid_token,
                         std::string(field) + ": token id " + std::to_string(token) +
                             " is outside the vocabulary of " + std::to_string(vocab) + " tokens"};
}

}  // namespace

prompt_reading::prompt_reading(const gpu::loaded_model& model,
                               const core::generation_request& request, std::uint32_t context)
    : model_(&model), context_(context), answer_tokens_(request.decode.max_tokens == 0u ? 0 : 1) {
  const auto& vocabulary = model.vocabulary;
  if (const auto* text = std::get_if<std::string>(&request.prompt)) {
    text_.emplace(vocabulary, *text, request.parse_special);
    if (request.add_special_tokens && vocabulary.add_bos() && vocabulary.bos() >= 0)
      tokens_ = {vocabulary.bos()};
  } else if (const auto* ids = std::get_if<std::vector<token_id>>(&request.prompt)) {
    tokens_ = *ids;
    check_ids(tokens_, vocabulary.vocab_size(), "prompt");
  } else {
    const auto& messages = std::get<std::vector<core::chat_message>>(request.prompt);
    refuse_long_chat(messages);
    text_.emplace(vocabulary, rendered(model, messages, request.add_generation_prompt));
  }
  check_ids(request.decode.stop_token_ids, vocabulary.vocab_size(), "stop_token_ids");
}

bool prompt_reading::advance(std::size_t budget) {
  if (!text_) return true;
  if (!text_->advance(budget)) {
    refuse_when_long(tokens_.size() + text_->at_least());
    return false;
  }
  auto read = text_->take();
  if (tokens_.empty())
    tokens_ = std::move(read);
  else
    tokens_.insert(tokens_.end(), read.begin(), read.end());
  text_.reset();
  return true;
}

void prompt_reading::refuse_when_long(std::size_t at_least) const {
  if (context_ == 0 || at_least + answer_tokens_ <= context_) return;
  throw prompt_error{core::refusal::context_length,
                     "This model's maximum context length is " + std::to_string(context_) +
                         " tokens, however the prompt has at least " + std::to_string(at_least) +
                         " tokens"};
}

// The template takes time for every message and copies all they say several times.
void prompt_reading::refuse_long_chat(const std::vector<core::chat_message>& messages) const {
  refuse_when_long(messages.size());
  const auto longest = model_->vocabulary.longest_token();
  std::size_t bytes = 0, kept = 0;
  for (const auto& message : messages) bytes += message.content.size();
  if (context_ == 0 || bytes / longest <= context_) return;
  for (const auto& message : messages) kept += model_->vocabulary.kept_bytes(message.content);
  refuse_when_long((kept + longest - 1) / longest);
}

std::string token_text(const gpu::tokenizer& vocabulary, const token_sequence& tokens) {
  std::string text;
  for (const auto token : tokens) text += vocabulary.bytes(token);
  return text;
}

}  // namespace troupe
