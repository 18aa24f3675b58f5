#include "actors/session_actor.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/typed_event_based_actor.hpp>

#include "actors/clock.hpp"
#include "actors/fail_stop.hpp"
#include "actors/prompt.hpp"
#include "gpu/model/pre_tokenizer_classes.hpp"

namespace troupe {
namespace {

bool is_letter_or_digit(char32_t code) {
  const auto kind = gpu::classify(code);
  return kind == gpu::char_class::letter || kind == gpu::char_class::number;
}

core::session_options machine_options(const session_context& context, core::request_id id,
                                      const core::generation_request& request) {
  core::session_options options;
  options.request = id;
  options.stop = {request.stop, request.include_stop_in_output, request.boundary, is_letter_or_digit};
  options.repetition = request.repetition;
  options.min_tokens = request.min_tokens;
  options.want_logprobs = request.top_logprobs >= 0;
  options.outbound_bytes_max = context.outbound_bytes_max;
  return options;
}

struct session {
  session(protocol::session_actor::pointer actor, const session_context& shared, core::request_id request_id,
          std::shared_ptr<core::generation_request> asked, std::weak_ptr<core::generation_sink> client,
          shared_phase told)
      : self(actor), context(shared), id(request_id), request(std::move(asked)), sink(std::move(client)), phase(std::move(told)),
        machine(machine_options(shared, request_id, *request)),
        text(shared.model->vocabulary, request->skip_special_tokens) {}

  protocol::session_actor::pointer self;
  session_context context;
  core::request_id id;
  std::shared_ptr<core::generation_request> request;
  std::weak_ptr<core::generation_sink> sink;
  shared_phase phase;
  core::session_machine machine;
  gpu::detokenizer text;
  std::vector<token_id> prompt;
  std::vector<scored_token> prompt_scores;
  bool echo_pending = false;
  core::session_effects out;
  core::request_record record;
  core::time_us begun_at = 0, first_token_at = 0;
  bool told_end = false;

  core::time_us now() const { return to_time_us(self->clock().now()); }

  void begin() {
    begun_at = now();
    record.id = id;
    record.label = request->label;
    record.max_tokens = request->max_tokens.value_or(0);
    try {
      prompt = prompt_tokens(*context.model, *request);
    } catch (const prompt_error& e) {
      return run([&] { machine.on(core::refused{id, e.why, e.message}, out); });
    }
    core::submit message;
    message.request = id;
    message.prompt = prompt;
    message.sampling = request->sampling;
    message.max_tokens = request->max_tokens;
    message.min_tokens = request->min_tokens;
    message.stop_token_ids = request->stop_token_ids;
    message.ignore_eos = request->ignore_eos;
    message.top_logprobs = request->top_logprobs;
    message.score_prompt = request->echo && request->top_logprobs >= 0;
    message.priority = request->priority;
    message.deadlines = request->deadlines;
    message.confidence = request->confidence;
    message.cache_salt = request->cache_salt;
    message.keep_prefix =
        request->disconnect ? *request->disconnect == on_disconnect::keep_prefix : context.keep_prefix;
    echo_pending = request->echo;
    self->send(context.scheduler, std::move(message), protocol::session_actor{self});
  }

  /// Runs one event of the machine and carries out what it asks for.
  template <class Event>
  void run(Event&& event) {
    out.clear();
    event();
    // A client that is gone is found while delivering; its cancel is one more round.
    for (std::size_t i = 0; i < out.size(); ++i) {
      auto effect = std::move(out[i]);
      std::visit([this](auto& x) { perform(x); }, effect);
    }
  }

  template <class Deliver>
  void to_sink(Deliver&& deliver) {
    if (const auto client = sink.lock())
      deliver(*client);
    else
      machine.on_cancel(core::end_reason::client_gone, now(), out);
  }

  void perform(core::session_effect::accepted& x) {
    to_sink([&](core::generation_sink& client) { client.accepted(x.prompt_tokens); });
  }
  void perform(core::session_effect::deliver& x) {
    to_sink([&](core::generation_sink& client) { client.delta(std::move(x.delta)); });
  }
  void perform(core::session_effect::finish& x) {
    *phase = core::life_phase::done;
    record.reason = x.end.reason;
    record.why_refused = x.end.why_refused;
    record.usage = x.end.usage;
    if (x.end.times.total_us == 0) x.end.times = own_times();
    record.times = x.end.times;
    told_end = true;
    if (const auto client = sink.lock()) client->end(std::move(x.end));
  }

  /// However the actor dies, its client is told one end. Called last, from whichever thread ends the actor.
  void died(const caf::error& why) noexcept {
    if (told_end) return;
    *phase = core::life_phase::done;
    const auto client = sink.lock();
    if (!client) return;
    const bool shutdown = why == caf::exit_reason::user_shutdown;
    core::generation_end end;
    end.reason = shutdown ? core::end_reason::shutdown : core::end_reason::session_crash;
    try {
      end.message = shutdown ? "the runtime is shutting down" : "the request's session died: " + caf::to_string(why);
      end.usage = record.usage;
      client->end(std::move(end));
    } catch (...) {
      // The client's code failed, and nobody is left to tell.
    }
  }
  /// A text stop ends the answer here, before the scheduler's own times are known.
  core::request_times own_times() const {
    const auto span = [](core::time_us from, core::time_us to) {
      return from == 0 || to < from ? std::uint64_t{0} : static_cast<std::uint64_t>(to - from);
    };
    core::request_times times;
    times.first_token_us = span(begun_at, first_token_at);
    times.prefill_us = times.first_token_us;
    times.decode_us = span(first_token_at, now());
    times.total_us = span(begun_at, now());
    return times;
  }

  void perform(core::session_effect::cancel_request& x) { self->send(context.scheduler, x.message); }
  void perform(core::session_effect::stalled&) { self->send(context.scheduler, core::reader_stalled{id}); }
  void perform(core::session_effect::resumed&) { self->send(context.scheduler, core::reader_resumed{id}); }
  void perform(core::session_effect::quit&) {
    context.watcher->on_end(record);
    self->demonitor(context.scheduler.address());  // else the scheduler keeps this actor's memory for as long as it lives
    self->quit();
  }

  core::token_piece to_piece(const scored_token& scored) const {
    return {scored.token, context.model->vocabulary.bytes(scored.token), scored.logprob, scored.top};
  }

  void on_tokens(const core::tokens_out& message) {
    prompt_scores.insert(prompt_scores.end(), message.prompt_scores.begin(), message.prompt_scores.end());
    run([&] {
      echo_when_scored();
      if (!message.token) return;
      if (first_token_at == 0) first_token_at = now();
      if (!machine.finished()) *phase = core::life_phase::decode;
      core::decoded_token token;
      token.is_end = message.is_end;
      if (!message.is_end) token.text = text.push(message.token->token);
      token.piece = to_piece(*message.token);
      token.cached_tokens = message.cached_tokens;
      if (request->repetition && !message.is_end) {
        auto rest = text;
        token.tail = rest.flush();
      }
      machine.on_token(std::move(token), now(), out);
    });
  }

  /// The echoed prompt goes out once: at once, or when its last score is here.
  void echo_when_scored() {
    const bool scored = request->top_logprobs < 0 || prompt_scores.size() + 1 >= prompt.size();
    if (!echo_pending || !scored) return;
    echo_pending = false;
    std::vector<core::token_piece> pieces;
    if (request->top_logprobs >= 0) {
      pieces.push_back({prompt.front(), context.model->vocabulary.bytes(prompt.front()), {}, {}});
      for (const auto& score : prompt_scores) pieces.push_back(to_piece(score));
    }
    machine.on_prompt(token_text(context.model->vocabulary, prompt), std::move(pieces), out);
  }

  void on_ended(const core::ended& message) {
    record.phase = message.phase;
    record.preemptions = message.preemptions;
    record.times = message.times;
    run([&] { machine.on(message, text.flush(), out); });
  }
};

}  // namespace

protocol::session_actor::behavior_type session_actor(protocol::session_actor::pointer self,
                                                     const session_context& context, core::request_id id,
                                                     const std::shared_ptr<core::generation_request>& request,
                                                     const std::weak_ptr<core::generation_sink>& sink,
                                                     const shared_phase& phase) {
  fail_stop(self, *context.watcher, "session");
  auto state = std::make_shared<session>(self, context, id, request, sink, phase);
  self->attach_functor([state](const caf::error& why) { state->died(why); });
  self->monitor(context.scheduler);
  self->set_down_handler(
      [state](const caf::down_msg&) { state->run([&] { state->machine.on_engine_down(state->out); }); });
  return {
      [state](const protocol::begin&) { state->begin(); },
      [state](const core::admitted& message) {
        state->run([&] {
          state->machine.on(message, state->out);
          state->echo_when_scored();
        });
      },
      [state](const core::refused& message) { state->run([&] { state->machine.on(message, state->out); }); },
      [state](const protocol::started&) {
        if (!state->machine.finished()) *state->phase = core::life_phase::prefill;
      },
      [state](const core::tokens_out& message) { state->on_tokens(message); },
      [state](const core::ended& message) { state->on_ended(message); },
      [state](const protocol::delivered&) { state->run([&] { state->machine.on_delivered(state->out); }); },
      [state](const core::cancel& message) {
        state->run([&] { state->machine.on_cancel(message.why, message.seen_at, state->out); });
      },
  };
}

}  // namespace troupe
