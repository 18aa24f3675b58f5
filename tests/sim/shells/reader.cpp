#include "tests/sim/shells/reader.hpp"

namespace troupe::sim {

void reader::accepted(std::uint32_t prompt_tokens) {
  if (end_) referee_.complain(name_ + " was accepted after its end");
  if (std::exchange(accepted_, true)) referee_.complain(name_ + " was accepted twice");
  if (prompt_tokens != wants_.prompt.size())
    referee_.complain(name_ + " was accepted with a wrong number of prompt tokens");
}

void reader::delta(core::generation_delta piece) {
  if (end_) referee_.complain(name_ + " got text after its end");
  if (!accepted_) referee_.complain(name_ + " got text before it was accepted");
  if (unconfirmed_) referee_.complain(name_ + " got a piece before it confirmed the last one");
  if (piece.completion_tokens < reported_tokens_)
    referee_.complain(name_ + " got a smaller token count than before");
  reported_tokens_ = piece.completion_tokens;
  text_ += piece.text;
  unconfirmed_ = true;
  if (reading_) read_on();
}

void reader::read_on() {
  reading_ = true;
  if (std::exchange(unconfirmed_, false)) confirm_();
}

void reader::end(core::generation_end last) {
  if (end_) return referee_.complain(name_ + " got its end twice");
  text_ += last.last.text;
  end_ = std::move(last);
  check_text();
}

void reader::check_text() const {
  if (wants_.solo.compare(0, text_.size(), text_) != 0)
    return referee_.complain(name_ + " got '" + text_ + "', alone it gets '" + wants_.solo + "'");
  if (!end_) return;
  const bool natural =
      end_->reason == core::end_reason::length || end_->reason == core::end_reason::stop_string;
  if (!natural) return;
  if (text_ != wants_.solo)
    referee_.complain(name_ + " ended with '" + text_ + "' instead of '" + wants_.solo + "'");
  if (end_->usage.completion != wants_.solo_tokens)
    referee_.complain(name_ + " was charged " + std::to_string(end_->usage.completion) +
                      " tokens, alone it has " + std::to_string(wants_.solo_tokens));
}

}  // namespace troupe::sim
