#include "actors/core/request.hpp"

#include <algorithm>
#include <utility>

namespace troupe::core {

namespace {

template <class... Fs>
struct overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
overloaded(Fs...) -> overloaded<Fs...>;

template <class State>
constexpr bool holds_blocks = requires(const State& s) {
  s.held;
};

std::uint64_t span(time_us from, time_us to) {
  return to > from ? static_cast<std::uint64_t>(to - from) : 0;
}

void add_holding(state_hash& h, const holding& x) {
  h.add(x.lease).add_blocks(x.blocks).add(x.computed).add(x.published).add(x.grow).add(x.alone);
  h.add(x.trimmed).add_blocks(x.sources);
}

void add_copy(state_hash& h, const parked_copy& x) {
  h.add(x.lease).add(x.computed).add(x.blocks).add(x.trimmed);
}

void add_transfer(state_hash& h, const transfer& x) {
  h.add(x.move).add(x.done).add(x.chunk);
}

void add_decode(state_hash& h, const decode_options& x) {
  h.add(x.min_tokens).add(x.stop_token_ids).add(x.ignore_eos).add(x.top_logprobs);
  const auto& s = x.sampling;
  h.add(s.temperature).add(s.top_p).add(s.min_p).add(s.top_k).add(s.seed);
  h.add(s.repetition_penalty).add(s.presence_penalty).add(s.frequency_penalty);
  h.add(s.logit_bias.size());
  for (const auto& [token, bias] : s.logit_bias) h.add(token).add(bias);
  h.add(x.confidence.has_value());
  if (x.confidence) h.add(x.confidence->top_k).add(x.confidence->mass).add(x.confidence->steps);
}

}  // namespace

request make_request(const submit& m, rank order, const scheduler_limits& limits, time_us now) {
  request r;
  r.id = m.request;
  r.order = order;
  r.tokens = m.prompt;
  r.prompt_tokens = r.size();
  const auto room = limits.effective_context() - r.prompt_tokens;
  r.max_tokens = std::min(m.decode.max_tokens.value_or(room), room);
  auto decode = m.decode;
  std::sort(decode.stop_token_ids.begin(), decode.stop_token_ids.end());
  r.decode = std::move(decode);
  r.scope = cache_scope{m.cache_salt};
  r.keep_prefix = m.keep_prefix;
  r.constraint = m.constraint;
  r.scored =
      m.score_prompt ? 1 : r.prompt_tokens;  // nothing comes before the first token to score it by
  r.submitted_at = now;
  // The time that reading the prompt took counts.
  r.due = deadlines_from(m.received_at.value_or(now), m.deadlines, limits.deadlines);
  return r;
}

request make_tail(const request& leader, const tail_of& tail, rank order) {
  auto r = leader;  // prompt and options are shared, not copied
  r.id = tail.request;
  r.order = order;
  r.tails.clear();
  r.state = life::awaiting_fork{leader.id};
  r.decode.edit().sampling.seed = tail.seed;
  return r;
}

std::uint32_t request::cached_at_most() const {
  return prompt_tokens + max_tokens - (max_tokens > 0 ? 1 : 0);
}

bool request::in_flight() const {
  return std::holds_alternative<life::prefilling_in_flight>(state) ||
         std::holds_alternative<life::decoding_in_flight>(state);
}

const holding* request::held() const {
  return std::visit(
      [](const auto& s) -> const holding* {
        if constexpr (holds_blocks<std::decay_t<decltype(s)>>)
          return &s.held;
        else
          return nullptr;
      },
      state);
}

holding* request::held() {
  return const_cast<holding*>(std::as_const(*this).held());
}

std::optional<lease_id> request::lease() const {
  if (const auto* h = held()) return h->lease;
  if (const auto* a = std::get_if<life::awaiting_grant>(&state)) return a->lease;
  if (const auto* f = std::get_if<life::forking>(&state)) return f->lease;
  if (const auto* m = std::get_if<life::moving_out>(&state)) return m->kept.lease;
  if (const auto* m = std::get_if<life::moving_in>(&state)) return m->kept.lease;
  if (const auto* e = std::get_if<life::retiring>(&state)) return e->lease;
  return std::nullopt;
}

std::optional<lease_id> request::copy() const {
  return std::visit(overloaded{
                        [](const life::awaiting_grant& s) {
                          return s.copy ? std::optional(s.copy->lease) : std::nullopt;
                        },
                        [](const life::moving_out& s) { return std::optional(s.copy.lease); },
                        [](const life::parked& s) { return std::optional(s.copy.lease); },
                        [](const life::moving_in& s) { return std::optional(s.copy.lease); },
                        [](const life::retiring& s) { return s.copy; },
                        [](const auto&) { return std::optional<lease_id>(); },
                    },
                    state);
}

std::optional<move_id> request::move() const {
  if (const auto* m = std::get_if<life::moving_out>(&state)) return m->way.move;
  if (const auto* m = std::get_if<life::moving_in>(&state)) return m->way.move;
  if (const auto* e = std::get_if<life::retiring>(&state)) return e->move;
  return std::nullopt;
}

request_state state_of(const request& r) {
  const bool resident = std::holds_alternative<life::prefilling>(r.state) ||
                        std::holds_alternative<life::decoding>(r.state);
  if (resident && r.stalled()) return request_state::paused;
  return std::visit(
      overloaded{
          [](const life::queued&) { return request_state::queued; },
          [](const life::awaiting_grant&) { return request_state::awaiting_grant; },
          [](const life::prefilling&) { return request_state::prefilling; },
          [](const life::prefilling_in_flight&) { return request_state::prefilling_in_flight; },
          [](const life::decoding&) { return request_state::decoding; },
          [](const life::decoding_in_flight&) { return request_state::decoding_in_flight; },
          [](const life::awaiting_recompute&) { return request_state::awaiting_recompute; },
          [](const life::moving_out&) { return request_state::moving_out; },
          [](const life::parked&) { return request_state::parked; },
          [](const life::moving_in&) { return request_state::moving_in; },
          [](const life::retiring&) { return request_state::retiring; },
          [](const life::awaiting_fork&) { return request_state::awaiting_fork; },
          [](const life::forking&) { return request_state::forking; },
      },
      r.state);
}

life_phase request::phase() const {
  switch (state_of(*this)) {
    case request_state::prefilling:
    case request_state::prefilling_in_flight:
      return life_phase::prefill;
    case request_state::decoding:
    case request_state::decoding_in_flight:
    case request_state::forking:
      return life_phase::decode;
    case request_state::awaiting_fork:
      return granted_at ? life_phase::prefill : life_phase::queued;
    case request_state::moving_out:
    case request_state::parked:
    case request_state::moving_in:
      return life_phase::parked;
    case request_state::paused:
      return std::holds_alternative<life::decoding>(state) ? life_phase::decode
                                                           : life_phase::prefill;
    case request_state::retiring:
      return std::get<life::retiring>(state).phase;
    default:
      return life_phase::queued;
  }
}

request_times request::times(time_us now) const {
  request_times t;
  t.queue_us = span(submitted_at, granted_at.value_or(now));
  t.total_us = span(submitted_at, now);
  if (planned_at) t.prefill_us = span(*planned_at, first_token_at.value_or(now));
  if (first_token_at) {
    t.first_token_us = span(submitted_at, *first_token_at);
    t.decode_us = span(*first_token_at, *last_token_at);
  }
  return t;
}

std::optional<end_reason> request::overdue(time_us now) const {
  if (std::holds_alternative<life::retiring>(state)) return std::nullopt;
  if (const auto over = due.overdue(progress(), now)) return over;
  if (reader_by && now >= *reader_by) return end_reason::slow_reader;
  return std::nullopt;
}

// The time in the queue ends with the grant, not with the ask for it.
deadline_progress request::progress() const {
  return {granted_at.has_value(), first_token_at.has_value()};
}

time_us request::next_deadline() const {
  if (std::holds_alternative<life::retiring>(state)) return never;
  return std::min(due.next(progress()), reader_by.value_or(never));
}

// Times that only reports need, and how often it was preempted, decide nothing.
void request::add_to(state_hash& h) const {
  h.add(id).add(order.priority).add(state.index());
  if (const auto* x = held()) add_holding(h, *x);
  if (const auto* x = std::get_if<life::awaiting_grant>(&state)) {
    h.add(x->lease).add(x->asked).add(x->alone).add(x->copy.has_value());
    if (x->copy) add_copy(h, *x->copy);
  }
  if (const auto* x = std::get_if<life::parked>(&state)) add_copy(h, x->copy);
  if (const auto* x = std::get_if<life::moving_out>(&state)) {
    add_holding(h, x->kept);
    add_copy(h, x->copy);
    add_transfer(h, x->way);
  }
  if (const auto* x = std::get_if<life::moving_in>(&state)) {
    add_holding(h, x->kept);
    add_copy(h, x->copy);
    add_transfer(h, x->way);
  }
  if (const auto* x = std::get_if<life::prefilling_in_flight>(&state)) h.add(x->chunk);
  if (const auto* x = std::get_if<life::awaiting_fork>(&state)) h.add(x->leader);
  if (const auto* x = std::get_if<life::forking>(&state)) h.add(x->lease).add(x->rows);
  h.add(tails);
  if (const auto* x = std::get_if<life::retiring>(&state))
    h.add(x->lease).add(x->end.why).add(x->end.stop_token).add(x->phase).add(x->move).add(x->copy);
  h.add_all(tokens).add(prompt_tokens).add(max_tokens);
  add_decode(h, *decode);
  h.add(scored).add(keep_prefix).add(unsure_steps);
  constraint.add_to(h);
  h.add(scope.salt.has_value());
  if (scope.salt) h.add(std::string_view(*scope.salt));
  due.add_to(h);
  h.add(stalled());
  h.add_due(reader_by.value_or(never));
  h.add(preemptions > 0).add(granted_at.has_value()).add(first_token_at.has_value());
}

}  // namespace troupe::core
