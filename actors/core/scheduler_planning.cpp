// The next step: which resident requests can be in it, and the plan as the executor needs it.
#include <algorithm>

#include "actors/core/scheduler_machine.hpp"

namespace troupe::core {

namespace {

/// Chunks aim below the target time of a step: the learned cost lags behind a growing context, and
/// the time between two tokens of a stream includes the messages as well as the step.
constexpr std::uint64_t aim_percent = 85;

}  // namespace

// Tokens not yet computed whose blocks the request holds.
std::uint32_t scheduler_machine::computable(const request& r) const {
  const auto* h = r.held();
  if (!h) return 0;
  const auto end = std::min(r.size(), capacity_of(*h));
  return end > h->computed ? end - h->computed : 0;
}

void scheduler_machine::plan(time_us now, effects& out) {
  std::vector<step_candidate> candidates;
  candidates.reserve(running_.size());
  for (const auto& [order, id] : running_) {
    const auto& r = requests_.at(id);
    if (r.stalled()) continue;
    if (const auto tokens = computable(r); tokens > 0)
      candidates.push_back(
          {id, std::holds_alternative<life::decoding>(r.state), tokens, order.priority});
  }
  if (candidates.empty()) return;
  const step_budget budget{limits_.max_num_batched_tokens, limits_.max_step_us * aim_percent / 100,
                           limits_.block_size};
  const auto shares = choose_step(candidates, budget, cost_);

  running_step step;
  step.step = step_id{++steps_};
  step_plan p;
  p.step = step.step;
  p.items.reserve(shares.size());
  for (const auto& share : shares) {
    auto& r = requests_.at(share.request);
    p.items.push_back(item_of(r, share.tokens));
    step.items.push_back(r.id);
    if (!r.planned_at) r.planned_at = now;
    for (const auto tail : r.tails)
      if (auto& t = requests_.at(tail); !t.planned_at) t.planned_at = now;
    if (auto* d = std::get_if<life::decoding>(&r.state)) {
      ++step.decode_rows;
      auto held = std::move(d->held);
      r.state = life::decoding_in_flight{std::move(held)};
    } else {
      step.prefill_tokens += share.tokens;
      auto held = std::move(std::get<life::prefilling>(r.state).held);
      r.state = life::prefilling_in_flight{std::move(held), share.tokens};
    }
  }
  in_flight_ = std::move(step);
  out.emplace_back(std::move(p));
}

plan_item scheduler_machine::item_of(const request& r, std::uint32_t tokens) const {
  const auto& h = *r.held();
  const auto first = r.tokens.begin() + h.computed;
  plan_item item;
  item.request = r.id;
  item.start = h.computed;
  item.tokens.assign(first, first + tokens);
  item.blocks = h.blocks;
  item.copy_from = h.sources;
  item.sample = h.computed + tokens == r.size() && r.max_tokens > 0;
  item.decode = r.decode;
  if (item.sample && r.decode->sampling.needs_history()) {
    item.history = r.tokens;
    item.history_prompt = r.prompt_tokens;
  }
  if (item.sample)
    for (const auto id : r.tails)
      item.tails.push_back({id, requests_.at(id).decode->sampling.seed});
  if (item.sample && r.completion() < r.decode->min_tokens) {
    item.suppressed = r.decode->stop_token_ids;
    if (!r.decode->ignore_eos)
      item.suppressed.insert(item.suppressed.end(), limits_.end_tokens.begin(),
                             limits_.end_tokens.end());
  }
  if (item.sample) {
    auto mask = r.constraint.mask();
    item.allowed = std::move(mask.allowed);
    item.suppressed.insert(item.suppressed.end(), mask.forbidden.begin(), mask.forbidden.end());
  }
  // Position j predicts token j + 1. Scores that were sent before a preemption are not computed
  // again.
  if (const auto end = std::min(h.computed + tokens + 1, r.prompt_tokens); r.scored < end) {
    item.score_targets.assign(tokens, -1);
    for (auto j = std::max(h.computed, r.scored - 1); j + 1 < end; ++j)
      item.score_targets[j - h.computed] = r.tokens[j + 1];
  }
  return item;
}

}  // namespace troupe::core
