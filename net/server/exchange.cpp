#include "net/server/exchange.hpp"

#include <algorithm>
#include <utility>

namespace troupe::net {

exchange::exchange(core::generation_engine& engine, cancel_registry& registry, std::uint64_t serial,
                   std::string object_id)
    : engine_{engine}, registry_{registry}, serial_{serial}, object_id_{std::move(object_id)} {}

exchange::~exchange() {
  // Also when choices still run: the connection that could take their events is closing.
  registry_.closed(object_id_);
}

void exchange::start(std::vector<core::generation_request> prompts, std::uint32_t n,
                     const std::weak_ptr<event_receiver>& receiver) {
  std::vector<std::weak_ptr<core::generation>> handles;
  for (auto& prompt : prompts) {
    const auto first = choices_.size();
    std::vector<core::answer_choice> answers;
    for (std::uint32_t i = 0; i < n; ++i) {
      choice c;
      c.sink = std::make_shared<posting_sink>(receiver, serial_, choices_.size());
      // Choice i has seed s + i, so that a single request with that seed gets the same answer (as
      // with vLLM).
      answers.push_back({prompt.decode.sampling.seed + i, c.sink});
      choices_.push_back(std::move(c));
    }
    prompt.label = object_id_;  // so that the log names what the client knows
    auto made = engine_.submit_choices(std::move(prompt), std::move(answers));
    for (std::size_t k = 0; k < made.size(); ++k) {
      handles.push_back(made[k]);
      choices_[first + k].handle = std::move(made[k]);
    }
  }
  registry_.opened(object_id_, std::move(handles));
}

bool exchange::on_accepted(std::size_t i) {
  auto& c = choices_[i];
  if (c.ended || c.accepted) return false;
  return c.accepted = true;
}

bool exchange::on_delta(std::size_t i) const {
  return !choices_[i].ended;
}

bool exchange::on_end(std::size_t i) {
  auto& c = choices_[i];
  if (c.ended) return false;
  c.ended = true;
  c.sink.reset();
  // The registry answers "over" as soon as the last choice is.
  if (all_ended()) registry_.closed(object_id_);
  return true;
}

void exchange::delivered(std::size_t i) {
  if (!choices_[i].ended) choices_[i].handle->delivered();
}

// Once for the whole exchange, whichever cause is seen first: a client that leaves, a failed write
// and a deadline may all come, in any order.
void exchange::cancel_rest(core::end_reason why, core::time_us seen_at) {
  if (std::exchange(cancelled_, true)) return;
  for (auto& c : choices_)
    if (!c.ended) c.handle->cancel(why, seen_at);
}

bool exchange::all_accepted() const {
  return std::all_of(choices_.begin(), choices_.end(),
                     [](const auto& c) { return c.accepted || c.ended; });
}

bool exchange::all_ended() const {
  return std::all_of(choices_.begin(), choices_.end(), [](const auto& c) { return c.ended; });
}

core::life_phase exchange::phase() const {
  if (all_ended()) return core::life_phase::done;
  auto furthest = core::life_phase::queued;
  for (const auto& c : choices_)
    if (!c.ended) furthest = std::max(furthest, c.handle->phase());
  return furthest;
}

}  // namespace troupe::net
