#include "actors/session_actor.hpp"

#include <caf/event_based_actor.hpp>
#include <caf/typed_event_based_actor.hpp>
#include <chrono>
#include <optional>
#include <utility>

#include "actors/clock.hpp"
#include "actors/core/deadline.hpp"
#include "actors/fail_stop.hpp"
#include "actors/prompt.hpp"
#include "gpu/model/text/pre_tokenizer_classes.hpp"

namespace troupe {
namespace {

/// Of gpu::tokenization's units: about a millisecond of work, some thousand bytes of text.
constexpr std::size_t slice = 65536;
constexpr std::chrono::milliseconds slice_pause{1};
/// So many sessions of a runtime read in slices at a time; the others ask again after the pause.
constexpr std::uint32_t reading_places = 4;
constexpr std::chrono::milliseconds place_pause{20};

bool is_letter_or_digit(char32_t code) {
  const auto kind = gpu::classify(code);
  return kind == gpu::char_class::letter || kind == gpu::char_class::number;
}

core::session_options machine_options(const session_context& context, core::request_id id,
                                      const core::generation_request& request) {
  core::session_options options;
  options.request = id;
  options.stop = {request.stop, request.include_stop_in_output, request.boundary,
                  is_letter_or_digit};
  options.repetition = request.repetition;
  options.min_tokens = request.decode.min_tokens;
  options.want_logprobs = request.decode.top_logprobs >= 0;
  options.outbound_bytes_max = context.outbound_bytes_max;
  return options;
}

struct session {
  session(protocol::session_actor::pointer actor, const session_context& shared,
          core::request_id request_id, std::shared_ptr<core::generation_request> asked,
          std::weak_ptr<core::generation_sink> client, shared_phase told)
      : self(actor),
        context(shared),
        id(request_id),
        request(std::move(asked)),
        sink(std::move(client)),
        phase(std::move(told)),
        machine(machine_options(shared, request_id, *request)),
        text(shared.model->vocabulary, request->skip_special_tokens) {
    record.id = id;
    record.label = request->label;
    record.max_tokens = request->decode.max_tokens.value_or(0);
  }

  protocol::session_actor::pointer self;
  session_context context;
  core::request_id id;
  std::shared_ptr<core::generation_request> request;
  std::weak_ptr<core::generation_sink> sink;
  shared_phase phase;
  core::session_machine machine;
  gpu::detokenizer text;
  std::optional<prompt_reading> reading;  // until the prompt is read
  bool in_slices = false;                 // it was too long for one
  bool has_place = false;                 // counted in reading_now
  token_sequence prompt;
  std::vector<scored_token> prompt_scores;
  bool echo_pending = false;
  core::session_effects out;
  core::request_record record;
  core::time_us begun_at = 0, first_token_at = 0;
  bool told_end = false, recorded = false;

  core::time_us now() const { return to_time_us(self->clock().now()); }

  void begin() {
    begun_at = now();
    try {
      reading.emplace(*context.model, *request, context.model_context);
    } catch (const prompt_error& e) {
      return refuse(e);
    }
    read_on();
  }

  void refuse(const prompt_error& e) {
    run([&] { machine.on(core::refused{id, e.why, e.message}, out); });
  }

  /// A short prompt is read at once. Between the slices of a long one the thread serves the others:
  /// the more sessions read, the longer each of them waits, so all together they take about one
  /// thread; and few read at a time, because a long word takes 30 times its bytes while it is read.
  void read_on() {
    if (!reading) return;
    if (in_slices && !take_place()) return read_later();
    try {
      if (reading->advance(slice)) {
        prompt = reading->take();
        stop_reading();
        return submit();
      }
    } catch (const prompt_error& e) {
      return refuse(e);
    }
    if (!std::exchange(in_slices, true)) machine.on_reading();
    read_later();
  }
  void read_later() {
    if (const auto late = deadline_over())
      return run([&] { machine.on_cancel(*late, now(), out); });
    self->delayed_send(self, take_place() ? slice_pause * context.reading_now->load() : place_pause,
                       protocol::read_on{});
  }
  bool take_place() {
    auto& taken = *context.reading_now;
    for (auto n = taken.load(); !has_place && n < reading_places;)
      has_place = taken.compare_exchange_weak(n, n + 1);
    return has_place;
  }
  void stop_reading() {
    if (std::exchange(has_place, false)) --*context.reading_now;
    reading.reset();
  }

  core::deadlines_ms deadlines() const {
    return core::with_defaults(request->deadlines, context.deadlines);
  }
  std::uint64_t read_for_ms() const { return static_cast<std::uint64_t>(now() - begun_at) / 1000; }
  std::optional<core::end_reason> deadline_over() const {
    const auto over = [at = read_for_ms()](std::uint64_t ms) { return ms > 0 && at >= ms; };
    const auto all = deadlines();
    if (over(all.queue)) return core::end_reason::queue_timeout;
    if (over(all.first_token)) return core::end_reason::first_token_timeout;
    if (over(all.total)) return core::end_reason::total_timeout;
    return std::nullopt;
  }
  /// What is left of them counts from the submit.
  core::deadlines_ms deadlines_left() const {
    if (!in_slices) return request->deadlines;
    const auto left = [at = read_for_ms()](std::uint64_t ms) {
      return ms == 0 ? 0 : ms > at ? ms - at : 1;
    };
    const auto all = deadlines();
    return {left(all.queue), left(all.first_token), left(all.total)};
  }

  void submit() {
    machine.on_submitted();
    core::submit message;
    message.request = id;
    message.prompt = prompt;
    message.decode = request->decode;
    message.score_prompt = request->echo && request->decode.top_logprobs >= 0;
    message.priority = request->priority;
    message.deadlines = deadlines_left();
    message.cache_salt = request->cache_salt;
    message.keep_prefix = request->disconnect ? *request->disconnect == on_disconnect::keep_prefix
                                              : context.keep_prefix;
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

  core::time_us left_at() const {
    const auto seen = context.left_at ? context.left_at->load() : 0;
    return seen != 0 ? seen : now();
  }

  template <class Deliver>
  void to_sink(Deliver&& deliver) {
    if (const auto client = sink.lock())
      deliver(*client);
    else
      machine.on_cancel(core::end_reason::client_gone, left_at(), out);
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

  /// However the actor dies, its end is recorded and told to its client once. Called last, from
  /// whichever thread ends the actor.
  void died(const caf::error& why) noexcept try {
    stop_reading();
    if (recorded) return;
    if (told_end) return record_end();
    const bool shutdown = why == caf::exit_reason::user_shutdown;
    record.reason = shutdown ? core::end_reason::shutdown : core::end_reason::session_crash;
    record.phase = phase->exchange(core::life_phase::done);
    record.usage = machine.usage();
    record.times = own_times();
    record_end();
    const auto client = sink.lock();
    if (!client) return;
    core::generation_end end;
    end.reason = record.reason;
    end.message = shutdown ? "the runtime is shutting down"
                           : "the request's session died: " + caf::to_string(why);
    end.usage = record.usage;
    end.times = record.times;
    client->end(std::move(end));
  } catch (...) {
    // The client's code failed, and nobody is left to tell.
  }
  void record_end() {
    recorded = true;
    context.watcher->on_end(record);
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

  void perform(core::session_effect::cancel_request& x) {
    self->send(context.scheduler, x.message);
  }
  void perform(core::session_effect::stalled&) {
    self->send(context.scheduler, core::reader_stalled{id});
  }
  void perform(core::session_effect::resumed&) {
    self->send(context.scheduler, core::reader_resumed{id});
  }
  void perform(core::session_effect::quit&) {
    stop_reading();
    record_end();
    self->demonitor(
        context.scheduler
            .address());  // else the scheduler keeps this actor's memory for as long as it lives
    self->quit();
  }

  core::token_piece to_piece(const scored_token& scored) const {
    return {scored.token, context.model->vocabulary.bytes(scored.token), scored.logprob,
            scored.top};
  }

  void on_tokens(const core::tokens_out& message) {
    prompt_scores.insert(prompt_scores.end(), message.prompt_scores.begin(),
                         message.prompt_scores.end());
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
    const bool scored =
        request->decode.top_logprobs < 0 || prompt_scores.size() + 1 >= prompt.size();
    if (!echo_pending || !scored) return;
    echo_pending = false;
    std::vector<core::token_piece> pieces;
    if (request->decode.top_logprobs >= 0) {
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

protocol::session_actor::behavior_type session_actor(
    protocol::session_actor::pointer self, const session_context& context, core::request_id id,
    const std::shared_ptr<core::generation_request>& request,
    const std::weak_ptr<core::generation_sink>& sink, const shared_phase& phase) {
  fail_stop(self, *context.watcher, "session");
  auto state = std::make_shared<session>(self, context, id, request, sink, phase);
  self->attach_functor([state](const caf::error& why) { state->died(why); });
  self->monitor(context.scheduler);
  self->set_down_handler([state](const caf::down_msg&) {
    state->run([&] { state->machine.on_engine_down(state->out); });
  });
  return {
      [state](const protocol::begin&) { state->begin(); },
      [state](const protocol::read_on&) { state->read_on(); },
      [state](const core::admitted& message) {
        state->run([&] {
          state->machine.on(message, state->out);
          state->echo_when_scored();
        });
      },
      [state](const core::refused& message) {
        state->run([&] { state->machine.on(message, state->out); });
      },
      [state](const protocol::started&) {
        if (!state->machine.finished()) *state->phase = core::life_phase::prefill;
      },
      [state](const core::tokens_out& message) { state->on_tokens(message); },
      [state](const core::ended& message) { state->on_ended(message); },
      [state](const protocol::delivered&) {
        state->run([&] { state->machine.on_delivered(state->out); });
      },
      [state](const core::cancel& message) {
        state->run([&] { state->machine.on_cancel(message.why, message.seen_at, state->out); });
      },
  };
}

}  // namespace troupe
