#include "actors/session/session_choice.hpp"

#include <utility>

#include "actors/session/prompt.hpp"
#include "gpu/model/text/pre_tokenizer_classes.hpp"

namespace troupe {
namespace {

bool is_letter_or_digit(char32_t code) {
  const auto kind = gpu::classify(code);
  return kind == gpu::char_class::letter || kind == gpu::char_class::number;
}

core::session_options machine_options(const choice_context& context, const choice_client& client) {
  const auto& request = *client.request;
  core::session_options options;
  options.request = client.id;
  options.stop = {request.stop, request.include_stop_in_output, request.boundary,
                  is_letter_or_digit};
  options.repetition = request.repetition;
  options.min_tokens = request.decode.min_tokens;
  options.want_logprobs = request.decode.top_logprobs >= 0;
  options.outbound_bytes_max = context.outbound_bytes_max;
  return options;
}

}  // namespace

session_choice::session_choice(choice_context context, choice_client client)
    : context_(std::move(context)),
      client_(std::move(client)),
      machine_(machine_options(context_, client_)),
      text_(context_.model->vocabulary, client_.request->skip_special_tokens) {
  record_.id = client_.id;
  record_.label = client_.request->label;
  record_.max_tokens = client_.request->decode.max_tokens.value_or(0);
}

void session_choice::prompt_read(const token_sequence& prompt) {
  echo_pending_ = client_.request->echo;
  if (echo_pending_) prompt_ = prompt;
}

core::submit session_choice::submit(token_sequence prompt, core::time_us received_at) const {
  const auto& request = *client_.request;
  core::submit message;
  message.request = client_.id;
  message.decode = request.decode;
  message.decode.sampling.seed = client_.seed;
  message.score_prompt = request.echo && request.decode.top_logprobs >= 0;
  message.priority = request.priority;
  message.deadlines = request.deadlines;
  message.received_at = received_at;
  message.cache_salt = request.cache_salt;
  message.keep_prefix =
      request.disconnect ? *request.disconnect == on_disconnect::keep_prefix : context_.keep_prefix;
  message.prompt = std::move(prompt);
  return message;
}

/// Runs one event of the machine and carries out what it asks for.
template <class Event>
void session_choice::run(core::time_us now, Event&& event) {
  effects_.clear();
  event();
  // By index: a sink that is gone is found while delivering, and its cancel adds effects.
  for (std::size_t i = 0; i < effects_.size(); ++i) {
    auto effect = std::move(effects_[i]);
    std::visit([&](auto& x) { perform(x, now); }, effect);
  }
}

void session_choice::on_unsubmitted_end(core::end_reason why, core::time_us now) {
  run(now, [&] { machine_.on_unsubmitted_end(why, effects_); });
}
void session_choice::on(const core::admitted& message, core::time_us now) {
  run(now, [&] {
    machine_.on(message, effects_);
    echo_when_scored();
  });
}
void session_choice::on(const core::refused& message, core::time_us now) {
  run(now, [&] { machine_.on(message, effects_); });
}
void session_choice::on_started() {
  if (!machine_.finished()) *client_.phase = core::life_phase::prefill;
}
void session_choice::on(const core::tokens_out& message, core::time_us now) {
  prompt_scores_.insert(prompt_scores_.end(), message.prompt_scores.begin(),
                        message.prompt_scores.end());
  run(now, [&] {
    echo_when_scored();
    if (!message.token) return;
    if (first_token_at_ == 0) first_token_at_ = now;
    if (!machine_.finished()) *client_.phase = core::life_phase::decode;
    core::decoded_token token;
    token.is_end = message.is_end;
    if (!message.is_end) token.text = text_.push(message.token->token);
    token.piece = to_piece(*message.token);
    token.cached_tokens = message.cached_tokens;
    if (client_.request->repetition && !message.is_end) {
      auto rest = text_;  // a copy: the answer may well go on
      token.tail = rest.flush();
    }
    machine_.on_token(std::move(token), now, effects_);
  });
}
void session_choice::on(const core::ended& message, core::time_us now) {
  record_.phase = message.phase;
  record_.preemptions = message.preemptions;
  record_.times = message.times;
  run(now, [&] { machine_.on(message, text_.flush(), effects_); });
}
void session_choice::on_delivered(core::time_us now) {
  run(now, [&] { machine_.on_delivered(effects_); });
}
void session_choice::on_cancel(const core::cancel& message, core::time_us now) {
  run(now, [&] { machine_.on_cancel(message.why, message.seen_at, effects_); });
}
void session_choice::on_engine_down(core::time_us now) {
  run(now, [&] { machine_.on_engine_down(effects_); });
}

template <class Deliver>
void session_choice::to_sink(core::time_us now, Deliver&& deliver) {
  if (const auto sink = client_.sink.lock()) return deliver(*sink);
  const auto seen = client_.left_at ? client_.left_at->load() : 0;
  machine_.on_cancel(core::end_reason::client_gone, seen != 0 ? seen : now, effects_);
}

void session_choice::perform(core::session_effect::accepted& x, core::time_us now) {
  to_sink(now, [&](core::generation_sink& sink) { sink.accepted(x.prompt_tokens); });
}
void session_choice::perform(core::session_effect::deliver& x, core::time_us now) {
  to_sink(now, [&](core::generation_sink& sink) { sink.delta(std::move(x.delta)); });
}
void session_choice::perform(core::session_effect::finish& x, core::time_us now) {
  *client_.phase = core::life_phase::done;
  record_.reason = x.end.reason;
  record_.why_refused = x.end.why_refused;
  record_.usage = x.end.usage;
  if (x.end.times.total_us == 0) x.end.times = own_times(now);
  record_.times = x.end.times;
  end_delivered_ = true;
  if (const auto sink = client_.sink.lock()) sink->end(std::move(x.end));
}
void session_choice::perform(core::session_effect::cancel_request& x, core::time_us) {
  to_scheduler_.emplace_back(x.message);
}
void session_choice::perform(core::session_effect::stalled&, core::time_us) {
  to_scheduler_.emplace_back(core::reader_stalled{client_.id});
}
void session_choice::perform(core::session_effect::resumed&, core::time_us) {
  to_scheduler_.emplace_back(core::reader_resumed{client_.id});
}
void session_choice::perform(core::session_effect::quit&, core::time_us) {
  over_ = true;
  record_end();
}

void session_choice::died(bool by_shutdown, const std::string& why, core::time_us now) {
  if (recorded_) return;
  if (end_delivered_) return record_end();
  record_.reason = by_shutdown ? core::end_reason::shutdown : core::end_reason::session_crash;
  record_.phase = client_.phase->exchange(core::life_phase::done);
  record_.usage = machine_.usage();
  record_.times = own_times(now);
  record_end();
  const auto sink = client_.sink.lock();
  if (!sink) return;
  core::generation_end end;
  end.reason = record_.reason;
  end.message = by_shutdown ? "the runtime is shutting down" : "the request's session died: " + why;
  end.usage = record_.usage;
  end.times = record_.times;
  sink->end(std::move(end));
}

void session_choice::record_end() {
  recorded_ = true;
  context_.watcher->on_end(record_);
}

/// A text stop ends the answer here, before the scheduler's own times are known.
core::request_times session_choice::own_times(core::time_us now) const {
  const auto span = [](core::time_us from, core::time_us to) {
    return from == 0 || to < from ? std::uint64_t{0} : static_cast<std::uint64_t>(to - from);
  };
  core::request_times times;
  times.first_token_us = span(begun_at_, first_token_at_);
  times.prefill_us = times.first_token_us;
  times.decode_us = span(first_token_at_, now);
  times.total_us = span(begun_at_, now);
  return times;
}

core::token_piece session_choice::to_piece(const scored_token& scored) const {
  return {scored.token, context_.model->vocabulary.bytes(scored.token), scored.logprob, scored.top};
}

/// The echoed prompt goes out once: at once, or when its last score is here.
void session_choice::echo_when_scored() {
  const bool scored =
      client_.request->decode.top_logprobs < 0 || prompt_scores_.size() + 1 >= prompt_.size();
  if (!echo_pending_ || !scored) return;
  echo_pending_ = false;
  std::vector<core::token_piece> pieces;
  if (client_.request->decode.top_logprobs >= 0) {
    // Nothing comes before the first token that it could be scored by.
    pieces.push_back({prompt_.front(), context_.model->vocabulary.bytes(prompt_.front()), {}, {}});
    for (const auto& score : prompt_scores_) pieces.push_back(to_piece(score));
  }
  machine_.on_prompt(token_text(context_.model->vocabulary, prompt_), std::move(pieces), effects_);
}

}  // namespace troupe
