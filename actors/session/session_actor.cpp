#include "actors/session/session_actor.hpp"

#include <algorithm>
#include <caf/event_based_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "actors/clock.hpp"
#include "actors/fail_stop.hpp"
#include "actors/session/prompt.hpp"

namespace troupe {
namespace {

core::reading_limits limits_of(const session_context& context,
                               const core::generation_request& request) {
  return {context.model_context, request.decode.max_tokens != 0u, request.deadlines,
          context.deadlines};
}

struct session {
  session(protocol::session_actor::pointer actor, const session_context& shared,
          const std::vector<choice_client>& clients)
      : self(actor),
        context(shared),
        request(clients.front().request),
        prompt(*shared.choice.model, *request),
        reading(limits_of(shared, *request)) {
    choices.reserve(clients.size());
    for (const auto& client : clients) choices.emplace_back(shared.choice, client);
  }

  protocol::session_actor::pointer self;
  session_context context;
  std::shared_ptr<const core::generation_request> request;
  prompt_tokenization prompt;
  core::prompt_reading reading;
  core::token_constraint constraint;  // compiled when the prompt is read; the same for all choices
  std::vector<session_choice> choices;

  core::time_us now() const { return to_time_us(self->clock().now()); }

  // ---- the prompt

  template <class Event>
  core::reading_step with_places(Event&& event) {
    return context.places->with([&](core::reading_places& places) { return event(places); });
  }

  void begin() {
    const auto at = now();
    for (auto& choice : choices) choice.begun(at);
    follow(reading.on_begin(prompt.at_least_unread(context.model_context), at));
  }
  void read_on() {
    follow(with_places([&](auto& places) { return reading.on_turn(places, now()); }));
  }

  core::reading_step read_slice(std::size_t units) {
    try {
      const bool complete = prompt.advance(units);
      if (complete) constraint = constraint_of(context.choice.model->vocabulary, *request);
      const core::slice_report done{complete, prompt.at_least()};
      return with_places([&](auto& places) { return reading.on_slice(done, places, now()); });
    } catch (const prompt_error& e) {
      return with_places([&](auto& places) { return reading.on_failed(e.why, e.message, places); });
    }
  }

  void follow(core::reading_step step) {
    while (const auto* read = std::get_if<core::reading::read_slice>(&step))
      step = read_slice(read->units);
    std::visit([this](const auto& x) { perform(x); }, step);
  }
  void perform(const core::reading::nothing&) {}
  void perform(const core::reading::read_slice&) {}  // follow() leaves none
  void perform(const core::reading::wait& x) {
    self->delayed_send(self, std::chrono::microseconds(x.us), protocol::read_on{});
  }
  void perform(const core::reading::submit&) {
    // One submit for all that still want an answer: the first leads, the rest are its tails.
    const token_sequence tokens = prompt.take();
    std::optional<core::submit> message;
    for (auto& choice : choices) {
      if (choice.over()) continue;
      choice.prompt_read(tokens);
      if (message)
        message->tails.push_back({choice.id(), choice.seed()});
      else
        message = choice.submit(tokens, reading.begun_at());
    }
    if (!message) return;
    message->constraint = constraint;
    self->send(context.scheduler, std::move(*message), protocol::session_actor{self});
  }
  void perform(const core::reading::refuse& x) {
    for_all([&](auto& choice) { choice.on(core::refused{choice.id(), x.why, x.message}, now()); });
  }
  void perform(const core::reading::end& x) {
    for_all([&](auto& choice) { choice.on_unsubmitted_end(x.why, now()); });
  }

  // ---- the answer

  session_choice* find(core::request_id id) {
    const auto found = std::find_if(choices.begin(), choices.end(),
                                    [id](const auto& choice) { return choice.id() == id; });
    return found == choices.end() ? nullptr : &*found;
  }

  /// Hands an event to the choice it is about, sends what that wants said, and quits when all are
  /// over.
  template <class Event>
  void pass(core::request_id id, Event&& event) {
    if (auto* choice = find(id)) hand(*choice, event);
    quit_when_over();
  }
  template <class Event>
  void for_all(Event&& event) {
    for (auto& choice : choices)
      if (!choice.over()) hand(choice, event);
    quit_when_over();
  }
  template <class Event>
  void hand(session_choice& choice, Event&& event) {
    event(choice);
    for (auto& message : choice.take_messages())
      std::visit([this](auto& x) { self->send(context.scheduler, std::move(x)); }, message);
  }
  void quit_when_over() {
    if (std::all_of(choices.begin(), choices.end(), [](const auto& c) { return c.over(); })) quit();
  }

  void on_cancel(const core::cancel& message) {
    auto* choice = find(message.request);
    if (!choice || choice->over()) return;
    const auto others =
        std::count_if(choices.begin(), choices.end(), [](const auto& c) { return !c.over(); }) - 1;
    if (reading.where() != core::prompt_reading::state::left && others > 0)  // they still read
      return hand(*choice, [&](auto& c) { c.on_unsubmitted_end(message.why, now()); });
    auto step = with_places([&](auto& places) { return reading.on_cancel(message.why, places); });
    if (!std::holds_alternative<core::reading::nothing>(step)) return follow(std::move(step));
    pass(message.request, [&](auto& c) { c.on_cancel(message, now()); });
  }

  void stop_reading() {
    context.places->with([this](auto& places) { reading.close(places); });
  }
  void quit() {
    stop_reading();
    // Else the scheduler keeps this actor's memory for as long as it lives.
    self->demonitor(context.scheduler.address());
    self->quit();
  }
  void died(const caf::error& why) noexcept try {
    stop_reading();
    for (auto& choice : choices)
      choice.died(why == caf::exit_reason::user_shutdown, caf::to_string(why), now());
  } catch (...) {
    // The client's code failed, and there is no one left to report it to.
  }
};

}  // namespace

protocol::session_actor::behavior_type session_actor(protocol::session_actor::pointer self,
                                                     const session_context& context,
                                                     const std::vector<choice_client>& clients) {
  fail_stop(self, *context.choice.watcher, "session");
  auto state = std::make_shared<session>(self, context, clients);
  self->attach_functor([state](const caf::error& why) { state->died(why); });
  self->monitor(context.scheduler);
  self->set_down_handler([state](const caf::down_msg&) {
    state->for_all([&](auto& choice) { choice.on_engine_down(state->now()); });
  });
  return {
      [state](const protocol::begin&) { state->begin(); },
      [state](const protocol::read_on&) { state->read_on(); },
      [state](const core::admitted& message) {
        state->pass(message.request, [&](auto& choice) { choice.on(message, state->now()); });
      },
      [state](const core::refused& message) {
        state->pass(message.request, [&](auto& choice) { choice.on(message, state->now()); });
      },
      [state](const protocol::started& message) {
        if (auto* choice = state->find(message.request)) choice->on_started();
      },
      [state](const core::tokens_out& message) {
        state->pass(message.request, [&](auto& choice) { choice.on(message, state->now()); });
      },
      [state](const core::ended& message) {
        state->pass(message.request, [&](auto& choice) { choice.on(message, state->now()); });
      },
      [state](const protocol::delivered& message) {
        state->pass(message.request, [&](auto& choice) { choice.on_delivered(state->now()); });
      },
      [state](const core::cancel& message) { state->on_cancel(message); },
  };
}

}  // namespace troupe
