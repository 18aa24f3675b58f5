// Encode and decode by message: prompts that hosts ask to have tokenized, one at a time and in
// slices of about a millisecond, so that the actor that answers stays free for everything else.
// Owned by the engine actor; knows no request of the scheduler.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <utility>

#include "actors/protocol/engine.hpp"
#include "actors/session/prompt.hpp"

namespace troupe {

class text_requests {
 public:
  using answer_to = std::function<void(protocol::prompt_encoded)>;

  explicit text_requests(std::shared_ptr<const gpu::loaded_model> model)
      : model_(std::move(model)) {}

  /// True: nothing was being encoded, so the caller has to begin with encode_slice().
  bool encode(protocol::encode_prompt ask, answer_to deliver);
  /// One slice of the oldest. True: there is more to do.
  bool encode_slice();
  protocol::tokens_decoded decode(const protocol::decode_tokens& ask) const;

 private:
  struct job {
    // On the heap: the tokenization keeps a reference to the request.
    std::unique_ptr<const protocol::encode_prompt> ask;
    prompt_tokenization reading;
    answer_to deliver;
  };
  std::shared_ptr<const gpu::loaded_model> model_;
  std::deque<job> jobs_;
};

}  // namespace troupe
