// Several answers to one prompt. The leader computes the prompt like any request; the tails wait
// for it without a lease, draw their first tokens from the logits of its last row and then share
// its blocks:
//
//   leader   queued .. prefilling .. [last row] decoding ..
//   tail     awaiting_fork ......... [ token  ] forking .. decoding ..
//                                        |
//   to the allocator: fork_lease{leader's lease, tail's lease} and only then anything that gives
//   the leader's lease back, on one FIFO path
//
// Whatever keeps the leader from that row (it ends, its step fails, its reader stalls) makes the
// next tail the leader: it is queued like any other request, and the rest waits for it.
#include <algorithm>
#include <utility>

#include "actors/core/scheduler_machine.hpp"

namespace troupe::core {

void scheduler_machine::admit_tails(const submit& m, request& leader, effects& out) {
  for (const auto& named : m.tails) {
    const rank order{m.priority, ++arrivals_};
    auto tail = make_tail(leader, named, order);
    leader.tails.push_back(tail.id);
    to_fork_.emplace(order, tail.id);
    out.emplace_back(admitted{tail.id, tail.prompt_tokens});
    requests_.emplace(named.request, std::move(tail));
  }
}

// A leader that runs will soon need a seat for each of its tails: new requests leave them free, or
// the tails would have to compute the prompt again.
std::uint32_t scheduler_machine::seats_for_tails() const {
  if (to_fork_.empty()) return 0;
  std::uint32_t seats = 0;
  for (const auto& [order, id] : running_)
    seats += static_cast<std::uint32_t>(requests_.at(id).tails.size());
  return seats;
}

// The time in the queue is over for all of them.
void scheduler_machine::on_leader_granted(const request& leader, time_us now) {
  for (const auto id : leader.tails) {
    auto& tail = requests_.at(id);
    if (!tail.granted_at) tail.granted_at = now;
    tail.cached_tokens = leader.cached_tokens;
  }
}

void scheduler_machine::send_scores(const request& leader, const tokens_out& message,
                                    effects& out) {
  for (const auto id : leader.tails) {
    auto& tail = requests_.at(id);
    tail.scored = leader.scored;
    out.emplace_back(
        tokens_out{id, message.prompt_scores, std::nullopt, false, tail.cached_tokens});
  }
}

// The prompt is computed, in the blocks of `parent`. A tail that has ended since the plan was made
// is left out: nothing was done for it alone.
void scheduler_machine::draw_tails(request& leader, lease_id parent, const item_result& result,
                                   time_us now, effects& out) {
  for (const auto& drawn : result.tails) {
    auto* tail = find(drawn.request);
    const auto* waits = tail ? std::get_if<life::awaiting_fork>(&tail->state) : nullptr;
    if (!waits || waits->leader != leader.id) continue;
    tail->scored = tail->prompt_tokens;
    take_token(*tail, drawn.sampled, life_phase::prefill,
               {drawn.request, result.scores, std::nullopt, false, tail->cached_tokens}, now, out);
    if (auto* goes_on = find(drawn.request)) begin_fork(*goes_on, parent, out);
  }
}

void scheduler_machine::begin_fork(request& tail, lease_id parent, effects& out) {
  leave_group(tail);
  const auto others = static_cast<std::uint32_t>(running_.size());
  if (others >= limits_.max_num_seqs) return back_to_queue(tail, std::nullopt);
  const auto shared = tail.prompt_tokens / limits_.block_size;
  const bool copies = tail.prompt_tokens % limits_.block_size != 0;
  const lease_id child{tail.id, ++tail.epoch};
  tail.state = life::forking{child, shared + 1};  // one row of its own
  to_fork_.erase(tail.order);
  running_.emplace(tail.order, tail.id);
  out.emplace_back(fork_lease{parent, child, shared, copies, others});
}

void scheduler_machine::forked(request& r, const granted& m, effects& out) {
  const auto& asked = std::get<life::forking>(r.state);
  if (m.blocks.size() != asked.rows * limits_.groups())
    out.emplace_back(violation{"a grant brings as many blocks as were asked for"});
  holding held;
  held.lease = m.lease;
  held.blocks = m.blocks;
  held.published = m.cached;
  held.computed = r.prompt_tokens;
  held.sources = m.sources;
  r.state = life::decoding{std::move(held)};
}

// The step that copied it is over.
void scheduler_machine::copied(holding& held, effects& out) const {
  if (held.sources.empty()) return;
  held.sources.clear();
  out.emplace_back(drop_source{held.lease});
}

// Their prompt is scored and nothing else was asked for.
void scheduler_machine::end_scored_tails(const request& leader, life_phase phase, time_us now,
                                         effects& out) {
  const auto tails = leader.tails;  // each leaves the group as it ends
  for (const auto id : tails)
    finish(requests_.at(id), {end_reason::length, std::nullopt, {}}, phase, now, out);
}

// One whose reader keeps up leads before one that would have to wait for it.
void scheduler_machine::hand_over(request& leader) {
  auto tails = std::exchange(leader.tails, {});
  if (tails.empty()) return;
  const auto next_at = std::find_if(tails.begin(), tails.end(),
                                    [this](auto id) { return !requests_.at(id).stalled(); });
  auto& next = requests_.at(next_at == tails.end() ? tails.front() : *next_at);
  std::erase(tails, next.id);
  for (const auto id : tails) requests_.at(id).state = life::awaiting_fork{next.id};
  next.tails = std::move(tails);
  back_to_queue(next, std::nullopt);
}

void scheduler_machine::leave_group(const request& tail) {
  if (const auto* waits = std::get_if<life::awaiting_fork>(&tail.state))
    std::erase(requests_.at(waits->leader).tails, tail.id);
}

}  // namespace troupe::core
