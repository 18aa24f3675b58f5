#include "actors/session_actor.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <chrono>
#include <utility>

#include "actors/clock.hpp"
#include "actors/fail_stop.hpp"
#include "actors/prompt.hpp"

namespace troupe {
namespace {

core::reading_limits limits_of(const session_context& context,
                               const core::generation_request& request) {
  return {context.model_context, request.decode.max_tokens != 0u, request.deadlines,
          context.deadlines};
}

struct session {
  session(protocol::session_actor::pointer actor, const session_context& shared,
          const choice_client& client)
      : self(actor),
        context(shared),
        request(client.request),
        prompt(*shared.choice.model, *request),
        reading(limits_of(shared, *request)),
        choice(shared.choice, client) {}

  protocol::session_actor::pointer self;
  session_context context;
  std::shared_ptr<const core::generation_request> request;
  prompt_tokenization prompt;
  core::prompt_reading reading;
  core::token_constraint constraint;  // compiled when the prompt is read
  session_choice choice;

  core::time_us now() const { return to_time_us(self->clock().now()); }

  // ---- the prompt

  template <class Event>
  core::reading_step with_places(Event&& event) {
    return context.places->with([&](core::reading_places& places) { return event(places); });
  }

  void begin() {
    const auto at = now();
    choice.begun(at);
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
    auto message = choice.submit(prompt.take(), reading.begun_at());
    message.constraint = constraint;
    self->send(context.scheduler, std::move(message), protocol::session_actor{self});
  }
  void perform(const core::reading::refuse& x) {
    pass([&] { choice.on(core::refused{{}, x.why, x.message}, now()); });
  }
  void perform(const core::reading::end& x) {
    pass([&] { choice.on_unsubmitted_end(x.why, now()); });
  }

  // ---- the answer

  /// Hands an event to the choice, sends what it wants said, and quits when it is over.
  template <class Event>
  void pass(Event&& event) {
    event();
    for (auto& message : choice.take_messages())
      std::visit([this](auto& x) { self->send(context.scheduler, std::move(x)); }, message);
    if (choice.over()) quit();
  }

  void on_cancel(const core::cancel& message) {
    auto step = with_places([&](auto& places) { return reading.on_cancel(message.why, places); });
    if (!std::holds_alternative<core::reading::nothing>(step)) return follow(std::move(step));
    pass([&] { choice.on_cancel(message, now()); });
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
    choice.died(why == caf::exit_reason::user_shutdown, caf::to_string(why), now());
  } catch (...) {
    // The client's code failed, and there is no one left to report it to.
  }
};

}  // namespace

protocol::session_actor::behavior_type session_actor(protocol::session_actor::pointer self,
                                                     const session_context& context,
                                                     const choice_client& client) {
  fail_stop(self, *context.choice.watcher, "session");
  auto state = std::make_shared<session>(self, context, client);
  self->attach_functor([state](const caf::error& why) { state->died(why); });
  self->monitor(context.scheduler);
  self->set_down_handler([state](const caf::down_msg&) {
    state->pass([&] { state->choice.on_engine_down(state->now()); });
  });
  return {
      [state](const protocol::begin&) { state->begin(); },
      [state](const protocol::read_on&) { state->read_on(); },
      [state](const core::admitted& message) {
        state->pass([&] { state->choice.on(message, state->now()); });
      },
      [state](const core::refused& message) {
        state->pass([&] { state->choice.on(message, state->now()); });
      },
      [state](const protocol::started&) { state->choice.on_started(); },
      [state](const core::tokens_out& message) {
        state->pass([&] { state->choice.on(message, state->now()); });
      },
      [state](const core::ended& message) {
        state->pass([&] { state->choice.on(message, state->now()); });
      },
      [state](const protocol::delivered&) {
        state->pass([&] { state->choice.on_delivered(state->now()); });
      },
      [state](const core::cancel& message) { state->on_cancel(message); },
  };
}

}  // namespace troupe
