#include "actors/session/text_requests.hpp"

#include <string>
#include <utility>

#include "actors/core/session/prompt_reading.hpp"

namespace troupe {

bool text_requests::encode(protocol::encode_prompt ask, answer_to deliver) {
  auto kept = std::make_unique<const protocol::encode_prompt>(std::move(ask));
  prompt_tokenization reading(*model_, kept->request);
  jobs_.push_back({std::move(kept), std::move(reading), std::move(deliver)});
  return jobs_.size() == 1;
}

bool text_requests::encode_slice() {
  if (jobs_.empty()) return false;
  auto& oldest = jobs_.front();
  try {
    if (!oldest.reading.advance(core::slice_units)) return true;
    oldest.deliver(protocol::prompt_encoded{oldest.reading.take()});
  } catch (const prompt_error& e) {
    oldest.deliver(protocol::prompt_encoded{protocol::text_error{e.why, e.message}});
  }
  jobs_.pop_front();
  return !jobs_.empty();
}

protocol::tokens_decoded text_requests::decode(const protocol::decode_tokens& ask) const {
  const auto& vocabulary = model_->vocabulary;
  if (const auto wrong = wrong_token(ask.tokens, vocabulary.vocab_size(), "tokens"))
    return {protocol::text_error{wrong->why, wrong->message}};
  return {decoded_text(vocabulary, ask.tokens)};
}

}  // namespace troupe
