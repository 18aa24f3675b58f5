#include "actors/session/prompt.hpp"

#include <algorithm>
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
  if (auto wrong = wrong_token(tokens, vocab, field)) throw std::move(*wrong);
}

}  // namespace

std::size_t prompt_tokenization::at_least_unread(std::uint32_t context) const {
  const auto* messages = std::get_if<std::vector<core::chat_message>>(&request_->prompt);
  if (messages == nullptr) return 0;
  const auto longest = model_->vocabulary.longest_token();
  std::size_t bytes = 0, kept = 0;
  for (const auto& message : *messages) bytes += message.content.size();
  if (bytes / longest > context)  // only bytes that have a token at all make the prompt longer
    for (const auto& message : *messages) kept += model_->vocabulary.kept_bytes(message.content);
  return std::max(messages->size(), (kept + longest - 1) / longest);
}

void prompt_tokenization::prepare() {
  prepared_ = true;
  const auto& vocabulary = model_->vocabulary;
  if (const auto* text = std::get_if<std::string>(&request_->prompt)) {
    text_.emplace(vocabulary, *text, request_->parse_special);
    if (request_->add_special_tokens && vocabulary.add_bos() && vocabulary.bos() >= 0)
      tokens_ = {vocabulary.bos()};
  } else if (const auto* ids = std::get_if<std::vector<token_id>>(&request_->prompt)) {
    tokens_ = *ids;
    check_ids(tokens_, vocabulary.vocab_size(), "prompt");
  } else {
    const auto& messages = std::get<std::vector<core::chat_message>>(request_->prompt);
    text_.emplace(vocabulary, rendered(*model_, messages, request_->add_generation_prompt));
  }
  check_ids(request_->decode.stop_token_ids, vocabulary.vocab_size(), "stop_token_ids");
}

bool prompt_tokenization::advance(std::size_t budget) {
  if (!prepared_) prepare();
  if (!text_) return true;
  if (!text_->advance(budget)) return false;
  auto read = text_->take();
  if (tokens_.empty())
    tokens_ = std::move(read);
  else
    tokens_.insert(tokens_.end(), read.begin(), read.end());
  text_.reset();
  return true;
}

std::size_t prompt_tokenization::at_least() const {
  return tokens_.size() + (text_ ? text_->at_least() : 0);
}

std::optional<prompt_error> wrong_token(const std::vector<token_id>& tokens, std::uint32_t vocab,
                                        const char* field) {
  for (const auto token : tokens)
    if (token < 0 || static_cast<std::uint32_t>(token) >= vocab)
      return prompt_error{core::refusal::invalid_token,
                          std::string(field) + ": token id " + std::to_string(token) +
                              " is outside the vocabulary of " + std::to_string(vocab) + " tokens"};
  return std::nullopt;
}

core::token_constraint constraint_of(const gpu::tokenizer& vocabulary,
                                     const core::generation_request& request) {
  check_ids(request.allowed_token_ids, vocabulary.vocab_size(), "allowed_token_ids");
  core::word_rules rules{request.allowed_token_ids, {}};
  for (const auto& word : request.bad_words) {
    const auto text = word.substr(std::min(word.find_first_not_of(" \t\n\r\f\v"), word.size()));
    auto plain = vocabulary.encode(text, true);
    auto spaced = vocabulary.encode(" " + text, true);
    // A space that is a token by itself would forbid the word in one place and the space in all.
    const bool differs =
        spaced.size() == plain.size() && !spaced.empty() && spaced.front() != plain.front();
    rules.forbidden.push_back(std::move(plain));
    if (differs) rules.forbidden.push_back(std::move(spaced));
  }
  return core::compile(std::move(rules));
}

std::string decoded_text(const gpu::tokenizer& vocabulary, const std::vector<token_id>& tokens) {
  gpu::detokenizer text(vocabulary, false);
  std::string out;
  for (const auto token : tokens) out += text.push(token);
  return out + text.flush();
}

std::string token_text(const gpu::tokenizer& vocabulary, const token_sequence& tokens) {
  std::string text;
  for (const auto token : tokens) text += vocabulary.bytes(token);
  return text;
}

}  // namespace troupe
