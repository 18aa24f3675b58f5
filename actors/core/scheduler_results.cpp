// What the result of a step means for the requests it named.
#include <algorithm>
#include <utility>

#include "actors/core/scheduler_machine.hpp"

namespace troupe::core {

void scheduler_machine::on(const step_done& m, time_us now, effects& out) {
  if (!in_flight_ || in_flight_->step != m.step) {
    ++ignored_;
    advance(now, out);
    return;
  }
  const auto step = *std::exchange(in_flight_, std::nullopt);
  const bool matches =
      std::equal(step.items.begin(), step.items.end(), m.items.begin(), m.items.end(),
                 [](request_id a, const item_result& b) { return a == b.request; });
  if (matches) {
    cost_.learn(step.decode_rows, step.prefill_tokens, m.elapsed_us);
    for (const auto& result : m.items) absorb(requests_.at(result.request), result, now, out);
  } else {
    out.emplace_back(violation{"a step's results name the requests of its plan, in order"});
    fail_step(step, "the device answered for other requests than it was given", now, out);
  }
  advance(now, out);
}

void scheduler_machine::on(const step_failed& m, time_us now, effects& out) {
  if (!in_flight_ || in_flight_->step != m.step) {
    ++ignored_;
  } else {
    const auto step = *std::exchange(in_flight_, std::nullopt);
    fail_step(step, m.what, now, out);
  }
  advance(now, out);
}

void scheduler_machine::fail_step(const running_step& step, const std::string& what, time_us now,
                                  effects& out) {
  for (const auto id : step.items) {
    auto& r = requests_.at(id);
    if (const auto* e = std::get_if<life::retiring>(&r.state)) {
      finish(r, verdict{e->end}, e->phase, now, out);
    } else {
      finish(r, {end_reason::step_failed, std::nullopt, what}, r.phase(), now, out);
    }
  }
}

void scheduler_machine::absorb(request& r, const item_result& result, time_us now, effects& out) {
  if (const auto* e = std::get_if<life::retiring>(&r.state)) {
    // The prompt is computed for its tails all the same; their forks go out before its release.
    const auto end = *e;
    if (!result.bad_logits) draw_tails(r, end.lease, result, now, out);
    finish(r, end.end, end.phase, now, out);
    return;
  }
  const auto phase = r.phase();
  std::uint32_t computed_now = 1;
  if (auto* p = std::get_if<life::prefilling_in_flight>(&r.state)) {
    computed_now = p->chunk;
    auto held = std::move(p->held);
    r.state = life::prefilling{std::move(held)};
  } else {
    auto held = std::move(std::get<life::decoding_in_flight>(r.state).held);
    r.state = life::decoding{std::move(held)};
  }
  copied(*r.held(), out);
  auto& computed = r.held()->computed;
  computed += computed_now;
  if (result.bad_logits) {
    finish(r,
           {end_reason::bad_logits, std::nullopt,
            "the model's output after " + std::to_string(computed) + " tokens is not a number"},
           phase, now, out);
    return;
  }

  if (result.nothing_allowed) {
    finish(r,
           {end_reason::no_token_allowed, std::nullopt,
            "No token may follow the answer's " + std::to_string(r.completion()) +
                " tokens: 'allowed_token_ids', 'bad_words' and 'min_tokens' together leave none."},
           phase, now, out);
    return;
  }

  publish_computed(r, out);

  tokens_out message;
  message.request = r.id;
  message.cached_tokens = r.cached_tokens;
  message.prompt_scores = result.scores;
  const auto scored = std::max(r.scored, std::min(computed + 1, r.prompt_tokens));
  if (result.scores.size() != scored - r.scored)
    out.emplace_back(violation{"a chunk brings one score for each target asked for"});
  r.scored = scored;

  if (computed == r.size() && r.max_tokens > 0) {
    if (result.sampled) {
      draw_tails(r, r.held()->lease, result, now, out);
      if (!r.tails.empty()) {
        out.emplace_back(violation{"a step draws a token for every tail it names"});
        hand_over(r);
      }
      take_token(r, *result.sampled, phase, std::move(message), now, out);
      return;
    }
    out.emplace_back(violation{"a step that samples brings a token"});
    finish(r, {end_reason::step_failed, std::nullopt, "the device returned no token"}, phase, now,
           out);
    return;
  }
  const bool scored_out = computed == r.size();
  if (!message.prompt_scores.empty()) {
    send_scores(r, message, out);
    out.emplace_back(std::move(message));
  }
  if (scored_out) {
    end_scored_tails(r, phase, now, out);
    finish(r, {end_reason::length, std::nullopt, {}}, phase, now, out);
  } else if (r.stalled()) {
    hand_over(r);
  }
}

void scheduler_machine::take_token(request& r, const scored_token& sampled, life_phase phase,
                                   tokens_out message, time_us now, effects& out) {
  const auto token = sampled.token;
  const auto is_one_of = [token](const std::vector<token_id>& sorted) {
    return std::binary_search(sorted.begin(), sorted.end(), token);
  };
  const auto& wants = *r.decode;
  const bool may_end = r.completion() >= wants.min_tokens;
  const bool end_token = may_end && !wants.ignore_eos && is_one_of(limits_.end_tokens);
  const bool stop_token = may_end && !end_token && is_one_of(wants.stop_token_ids);

  const bool unsure = wants.confidence && sampled.mass < wants.confidence->mass;
  r.unsure_steps = unsure ? r.unsure_steps + 1 : 0;
  const bool unsure_for_long =
      may_end && wants.confidence && r.unsure_steps >= wants.confidence->steps;

  r.tokens.push_back(token);
  r.constraint.advance(token);
  if (!r.first_token_at) r.first_token_at = now;
  r.last_token_at = now;
  if (auto* p = std::get_if<life::prefilling>(&r.state)) {
    auto held = std::move(p->held);
    r.state = life::decoding{std::move(held)};
  }
  message.token = sampled;
  message.is_end = end_token || stop_token;
  out.emplace_back(std::move(message));

  if (end_token) {
    finish(r, {end_reason::end_token, std::nullopt, {}}, phase, now, out);
  } else if (stop_token) {
    finish(r, {end_reason::stop_token, token, {}}, phase, now, out);
  } else if (unsure_for_long) {
    finish(r, {end_reason::stop_confidence, std::nullopt, {}}, phase, now, out);
  } else if (r.completion() >= r.max_tokens) {
    finish(r, {end_reason::length, std::nullopt, {}}, phase, now, out);
  }
}

}  // namespace troupe::core
