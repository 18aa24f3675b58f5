#include "net/api/generation_reply.hpp"

#include <ctime>
#include <utility>

#include "net/server/outbound.hpp"
#include "net/server/random_id.hpp"

namespace troupe::net {
namespace {

const char* id_prefix(api_kind kind) {
  switch (kind) {
    case api_kind::chat:
      return "chatcmpl-";
    case api_kind::completions:
      return "cmpl-";
    case api_kind::responses:
      break;
  }
  return "resp_";
}

}  // namespace

generation_reply::generation_reply(route_context& context, api_request request,
                                   std::uint64_t serial, reply_port& port)
    : context_{context},
      port_{port},
      prompt_field_{prompt_field(request.kind)},
      stream_{request.stream},
      n_{request.n},
      exchange_{context.engine, context.registry, serial, random_id(id_prefix(request.kind))},
      held_(request.choices()) {
  reply_meta meta;
  meta.id = exchange_.object_id();
  meta.unix_now = [] { return static_cast<std::int64_t>(std::time(nullptr)); };
  meta.created = meta.unix_now();
  meta.token_bytes = [&engine = context.engine](token_id t) { return engine.token_bytes(t); };
  encoder_ = make_encoder(request, std::move(meta));
  prompts_ = std::move(request.prompts);
}

void generation_reply::start(const std::weak_ptr<event_receiver>& receiver) {
  exchange_.start(std::exchange(prompts_, {}), n_, receiver);
}

void generation_reply::on_event(std::size_t choice, generation_event event) {
  if (done_) return;
  if (std::holds_alternative<accepted_event>(event)) return accepted(choice);
  if (auto* d = std::get_if<core::generation_delta>(&event)) return delta(choice, std::move(*d));
  end(choice, std::move(std::get<core::generation_end>(event)));
}

void generation_reply::accepted(std::size_t choice) {
  if (exchange_.on_accepted(choice)) open_when_accepted();
}

void generation_reply::delta(std::size_t choice, core::generation_delta d) {
  if (!exchange_.on_delta(choice)) return;
  if (!stream_) {
    // Nothing is written before the end, so the next delta needs to wait for nothing.
    encoder_->collect(choice, d);
    exchange_.delivered(choice);
  } else if (!open_) {
    held_[choice].delta = std::move(d);
  } else {
    send_delta(choice, d);
  }
}

void generation_reply::end(std::size_t choice, core::generation_end e) {
  if (!exchange_.on_end(choice)) return;
  // Also before the head is out, where it becomes the reply's status.
  if (const auto error = error_of(e, prompt_field_)) return fail(*error);
  if (!stream_) {
    encoder_->collect_end(choice, e);
    if (exchange_.all_ended()) finish_whole();
  } else if (open_) {
    send_end(choice, e);
  } else {
    held_[choice].end = std::move(e);
    open_when_accepted();
  }
}

/// The status line waits until every choice is accepted: a refusal of the last one is still a plain
/// HTTP error. What the others produced meanwhile (one delta each, for lack of credit) is held.
void generation_reply::open_when_accepted() {
  if (!stream_ || open_ || !exchange_.all_accepted()) return;
  open_ = true;
  port_.send_stream_head(id_header());
  for (std::size_t i = 0; i < held_.size(); ++i) {
    auto frames = encoder_->begin(i);
    if (!frames.empty()) port_.send_chunk(std::move(frames), outbound::no_credit);
  }
  for (std::size_t i = 0; i < held_.size() && !done_; ++i) {
    if (held_[i].delta) send_delta(i, *std::exchange(held_[i].delta, std::nullopt));
    if (held_[i].end) send_end(i, *std::exchange(held_[i].end, std::nullopt));
  }
}

void generation_reply::send_delta(std::size_t choice, const core::generation_delta& d) {
  auto frames = encoder_->text(choice, d);
  // Without a frame there is no write whose end would give the credit back.
  if (frames.empty()) return exchange_.delivered(choice);
  port_.send_chunk(std::move(frames), choice);
}

void generation_reply::send_end(std::size_t choice, const core::generation_end& e) {
  std::string frames = encoder_->end(choice, e);
  const bool last = ++ends_sent_ == exchange_.size();
  // In one write with the last end: a client never sees an end without [DONE] behind it.
  if (last) frames += encoder_->close();
  port_.send_chunk(std::move(frames), outbound::no_credit);
  if (!last) return;
  done_ = true;
  port_.send_stream_end();
}

void generation_reply::fail(const api_error& error) {
  done_ = true;
  // One choice that fails ends the reply, and the others with it.
  exchange_.cancel_rest(core::end_reason::cancelled, context_.engine.now());
  if (!open_) {
    auto reply = error_reply(error);
    // Also an error can be looked up in the log by its id.
    for (auto& header : id_header()) reply.headers.push_back(std::move(header));
    return port_.send_whole(std::move(reply));
  }
  port_.send_chunk(encoder_->fail(error), outbound::no_credit);
  port_.send_stream_end();
}

void generation_reply::finish_whole() {
  done_ = true;
  port_.send_whole({.status = 200, .headers = id_header(), .body = encoder_->whole()});
}

void generation_reply::on_written(std::size_t choice) {
  if (!done_) exchange_.delivered(choice);
}

void generation_reply::cancel(core::end_reason why, core::time_us seen_at) {
  done_ = true;
  exchange_.cancel_rest(why, seen_at);
}

header_list generation_reply::id_header() const {
  return {{"X-Troupe-Id", exchange_.object_id()}};
}

}  // namespace troupe::net
