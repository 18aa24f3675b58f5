// Sessions that read their prompts: the part of a world before a request is submitted.
#include <utility>

#include "tests/sim/explorer/world.hpp"

namespace troupe::core::sim {

// A turn that finds no place changes nothing but the time, so it isn't a choice.
bool world::has_turn(const client& c) const {
  return c.reading.where() == prompt_reading::state::tokenizing &&
         (c.reading.has_place() || places_.taken < places_.total || c.reading.overdue(now_));
}

request_state world::row_of(request_id id) const {
  const auto i = index_of(id);
  if (i < clients_.size() && clients_[i].state == life::alive &&
      clients_[i].reading.where() == prompt_reading::state::tokenizing)
    return request_state::tokenizing;
  return machine_.state_of(id);
}

/// As the shell does: slices until the machine says something else.
void world::follow(std::size_t i, reading_step step) {
  auto& c = clients_[i];
  const auto& script = scene_->clients[i];
  while (std::holds_alternative<reading::read_slice>(step)) {
    if (c.slices > 0 && !c.reading.has_place()) throw broken("a session reads without a place");
    ++c.slices;
    step = c.reading.on_slice({c.slices >= script.slices, c.slices * script.tokens_per_slice},
                              places_, now_);
  }
  session_effects out;
  std::visit(overloaded{
                 [](const reading::nothing&) {},
                 [](const reading::read_slice&) {},
                 [](const reading::wait& x) {
                   if (x.us == 0) throw broken("a session that reads never lets others in");
                 },
                 [&](const reading::submit&) {
                   if (c.finishes) throw broken("a prompt is submitted after its client's end");
                   auto message = submit_of(*scene_, i);
                   message.received_at = c.reading.begun_at();
                   for (const auto& tail : message.tails) {  // their session is the leader's
                     auto& x = clients_.at(index_of(tail.request));
                     x.state = life::alive;
                     x.reading.close(places_);
                   }
                   c.up.emplace_back(std::move(message));
                 },
                 [&](const reading::refuse& x) {
                   if (c.slices * script.tokens_per_slice < scene_->limits.model_context)
                     throw broken("a prompt that may fit is refused");
                   c.session.on(refused{id_of(i), x.why, x.message}, out);
                 },
                 [&](const reading::end& x) { c.session.on_unsubmitted_end(x.why, out); },
             },
             step);
  run_session(i, out);
}

void world::cancel_session(std::size_t i, end_reason why) {
  auto& c = clients_[i];
  auto step = c.reading.on_cancel(why, places_);
  if (!std::holds_alternative<reading::nothing>(step)) return follow(i, std::move(step));
  session_effects out;
  c.session.on_cancel(why, now_, out);
  run_session(i, out);
}

}  // namespace troupe::core::sim
