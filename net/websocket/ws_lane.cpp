#include "net/websocket/ws_lane.hpp"

#include <ctime>
#include <utility>

#include "net/server/random_id.hpp"

namespace troupe::net {

ws_lane::ws_lane(route_context& context, port& to) : context_{context}, port_{to} {}

void ws_lane::create(api_request request) {
  if (!exchange_) return run(std::move(request));
  const auto waiting_max = context_.config.max_ws_queue;
  if (waiting_.size() >= waiting_max)
    return port_.send(error_envelope(websocket_queue_full(waiting_max)), 0);
  waiting_.push_back(std::move(request));
}

void ws_lane::cancel(const ws_cancel& message) {
  // Without an id it is the response that runs; one that waits has no id yet.
  if (!exchange_ || (message.response_id && *message.response_id != exchange_->object_id())) return;
  context_.registry.cancel(exchange_->object_id(), context_.engine.now());
}

void ws_lane::run(api_request request) {
  exchange_ = std::make_unique<exchange>(context_.engine, context_.registry, port_.next_serial(),
                                         random_id("resp_"));
  reply_meta meta;
  meta.id = exchange_->object_id();
  meta.unix_now = [] { return static_cast<std::int64_t>(std::time(nullptr)); };
  meta.created = meta.unix_now();
  events_.emplace(request, std::move(meta));
  begun_ = false;
  // Before the start: the engine may answer at once, on another thread.
  port_.on_response_begun();
  exchange_->start(std::move(request.prompts), request.n, port_.receiver());
}

void ws_lane::run_next() {
  if (exchange_ || waiting_.empty()) return;
  api_request next = std::move(waiting_.front());
  waiting_.pop_front();
  run(std::move(next));
}

void ws_lane::on_event(std::uint64_t serial, std::size_t choice, generation_event event) {
  if (!exchange_ || exchange_->serial() != serial) return;  // of a response that is over
  if (std::holds_alternative<accepted_event>(event)) {
    if (!exchange_->on_accepted(choice) || begun_) return;
    begun_ = true;
    return send(events_->begin());
  }
  if (const auto* d = std::get_if<core::generation_delta>(&event)) {
    if (!exchange_->on_delta(choice)) return;
    auto frames = events_->delta(d->text);
    // A delta without text (half a character) sends no frame whose leaving could be awaited.
    return frames.empty() ? exchange_->delivered(choice) : send(std::move(frames), serial);
  }
  if (exchange_->on_end(choice)) on_end(std::get<core::generation_end>(event));
}

void ws_lane::on_end(const core::generation_end& end) {
  const auto error = error_of(end, prompt_field(api_kind::responses));
  if (error) {
    // Before response.created there is no response that could fail, only a request.
    begun_ ? send(events_->fail(*error)) : port_.send(error_envelope(*error), 0);
  } else {
    if (!begun_) send(events_->begin());
    send(events_->finish(end));
  }
  exchange_.reset();
  events_.reset();
  port_.on_response_over();
}

void ws_lane::on_frame_sent(std::uint64_t credit) {
  // A frame of an earlier response may still have been under way.
  if (exchange_ && credit == exchange_->serial()) exchange_->delivered(0);
}

void ws_lane::cancel_active(core::end_reason why, core::time_us seen_at) {
  if (exchange_) exchange_->cancel_rest(why, seen_at);
}

std::optional<core::life_phase> ws_lane::abandon(core::end_reason why, core::time_us seen_at) {
  waiting_.clear();
  if (!exchange_) return std::nullopt;
  const auto phase = exchange_->phase();
  exchange_->cancel_rest(why, seen_at);
  exchange_.reset();
  return phase;
}

void ws_lane::send(std::vector<wire_event> events, std::uint64_t credit) {
  // When the connection's queue is full it closes, and drops the rest itself.
  for (auto& e : events) port_.send(std::move(e.json), credit);
}

}  // namespace troupe::net
