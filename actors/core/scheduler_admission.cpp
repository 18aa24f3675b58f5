// Which request is accepted, which gets blocks next, and which gives them up.
#include <algorithm>
#include <iterator>
#include <utility>

#include "actors/core/prompt_length.hpp"
#include "actors/core/scheduler_machine.hpp"

namespace troupe::core {

namespace {

/// Blocks are reserved this many tokens ahead, so that decode seldom waits for the allocator's
/// answer.
constexpr std::uint32_t look_ahead_tokens = 16;

std::uint32_t blocks_for(std::uint32_t tokens, std::uint32_t block_size) {
  return (tokens + block_size - 1) / block_size;
}

}  // namespace

std::optional<refused> scheduler_machine::objection_to(const submit& m) const {
  const auto no = [&](refusal why, std::string text) {
    return refused{m.request, why, std::move(text)};
  };
  if (draining_) return no(refusal::draining, "the server is shutting down");
  if (m.prompt.empty())
    return no(refusal::empty_prompt, "the prompt has 0 tokens, at least 1 is needed");
  for (std::size_t i = 0; i < m.prompt.size(); ++i) {
    const auto t = m.prompt[i];
    if (t < 0 || (limits_.vocab > 0 && static_cast<std::uint32_t>(t) >= limits_.vocab))
      return no(refusal::invalid_token, "prompt token " + std::to_string(i) + " is " +
                                            std::to_string(t) + ", the vocabulary has " +
                                            std::to_string(limits_.vocab) + " tokens");
  }
  // A request that only scores its prompt needs no room for a token.
  const auto needed = std::uint64_t{m.prompt.size()} + (m.decode.max_tokens == 0u ? 0 : 1);
  const auto prompt_tokens = std::to_string(m.prompt.size());
  if (!prompt_fits(m.prompt.size(), m.decode.max_tokens != 0u, limits_.model_context))
    return no(refusal::context_length, prompt_too_long(m.prompt.size(), limits_.model_context));
  if (needed > limits_.pool_tokens())
    return no(refusal::kv_capacity, "The KV cache has room for " +
                                        std::to_string(limits_.pool_tokens()) +
                                        " tokens, however the prompt has " + prompt_tokens +
                                        " tokens and needs room for one more");
  if (queue_is_full(1 + m.tails.size()))
    return no(refusal::queue_full, "the queue is full: " + std::to_string(waiting()) +
                                       " requests wait, the limit is " +
                                       std::to_string(limits_.max_num_queued_reqs));
  return std::nullopt;
}

// Every request passes through the queue, one reserve at a time, so a burst waits there although
// seats are free. Requests that only wait for their turn do not count against the limit; once the
// pool has denied one, free seats are of no use and all count.
bool scheduler_machine::queue_is_full(std::size_t new_requests) const {
  const std::uint64_t seats = blocked_ ? 0 : limits_.max_num_seqs - running_.size();
  return waiting() + new_requests > limits_.max_num_queued_reqs + seats;
}

// The first in rank whose reader keeps up.
std::map<rank, request_id>::const_iterator scheduler_machine::next_in_queue() const {
  return std::find_if(queue_.begin(), queue_.end(),
                      [this](const auto& x) { return !requests_.at(x.second).stalled(); });
}

// Only the head of the queue reserves, for everything it must compute plus one token; no request
// overtakes it. A prompt needs the rows behind a window too: they go back as it is computed. One
// block per running request stays free, so that an admission does not take the
// blocks that running requests are about to need.
//
// It cannot wait for ever: while something runs, that ends and its blocks come back; when nothing
// runs, all releases are ahead of this reserve on the same path, the whole pool is free, keep_free
// is 0, and every admitted request fits the pool alone (objection_to, and max_tokens clipped to the
// effective context).
void scheduler_machine::admit(effects& out) {
  if (asking_ || running_.size() + seats_for_tails() >= limits_.max_num_seqs) return;
  if (blocked_ && !(running_.empty() && moves_.empty())) return;
  const auto next = next_in_queue();
  if (next == queue_.end()) return;
  const auto [order, id] = *next;
  auto& r = requests_.at(id);
  const auto others = static_cast<std::uint32_t>(running_.size());
  const auto count = blocks_for(std::min(r.size() + 1, r.cached_at_most()), limits_.block_size);
  const lease_id lease{id, ++r.epoch};
  const auto* p = std::get_if<life::parked>(&r.state);
  const auto copy = p ? std::optional(p->copy) : std::nullopt;
  std::optional<prefix_query> prefix;
  if (limits_.prefix_caching) {
    prefix = prefix_query{r.scope, {}};  // no lookup, but what it computes can be found
    if (!copy && r.scored >= r.prompt_tokens) prefix->tokens = r.tokens;
  }
  r.state = life::awaiting_grant{lease, count, others == 0 && moves_.empty(), copy};
  queue_.erase(order);
  running_.emplace(order, id);
  asking_ = id;
  blocked_ = false;  // until this reserve is denied
  out.emplace_back(reserve{lease, count, others, std::move(prefix)});
}

// One row at a time, one reserve in flight per resident request, best rank first.
void scheduler_machine::grow(effects& out) {
  for (const auto& [order, id] : running_) {
    auto& r = requests_.at(id);
    auto* h = r.held();
    if (!h || h->grow != holding::growth::none || r.stalled()) continue;
    if (capacity_of(*h) >= std::min(r.size() + look_ahead_tokens, r.cached_at_most())) continue;
    h->grow = holding::growth::asked;
    h->alone = running_.size() == 1 && moves_.empty();
    out.emplace_back(reserve{h->lease, 1, 0, std::nullopt});
  }
}

// Between any two steps of a request, so that no step in flight may read what goes back. A block
// that others can find stays in the cache. A fork's table comes with the places that its parent had
// given back; its own window has passed them too, so they are counted here.
void scheduler_machine::trim_behind_windows(effects& out) {
  if (std::all_of(limits_.windows.begin(), limits_.windows.end(), [](auto w) { return w == 0; }))
    return;
  for (const auto& [order, id] : running_) {
    auto& r = requests_.at(id);
    auto* h = r.held();
    if (!h || r.in_flight()) continue;
    for (std::uint32_t g = 0; g < limits_.groups(); ++g)
      trim_group(*h, g, limits_.rows_behind_window(g, h->computed), out);
  }
}

void scheduler_machine::trim_group(holding& held, std::uint32_t group, std::uint32_t rows,
                                   effects& out) const {
  rows = std::min(rows, rows_of(held) - 1);  // a lease keeps a row, or it would not be one
  const auto before = held.trimmed.empty() ? 0 : held.trimmed.at(group);
  if (rows <= before) return;
  held.trimmed.resize(limits_.groups(), 0);
  held.trimmed[group] = rows;
  // A table of its own: what plans and forks have seen of the old one does not change.
  std::vector<block_id> table(held.blocks.begin(), held.blocks.end());
  for (auto row = before; row < rows; ++row) table[row * limits_.groups() + group] = no_block;
  held.blocks = block_table(table);
  out.emplace_back(trim{held.lease, group, rows});
}

// In the order in which a copy holds them.
std::vector<block_id> scheduler_machine::blocks_to_copy(const holding& held,
                                                        std::uint32_t computed) const {
  const auto rows = blocks_for(computed, limits_.block_size);
  std::vector<block_id> out;
  out.reserve(std::size_t{rows} * limits_.groups());
  std::copy_if(held.blocks.begin(), held.blocks.begin() + std::ptrdiff_t{rows} * limits_.groups(),
               std::back_inserter(out), [](block_id b) { return b != no_block; });
  return out;
}

// Between steps, when a request has no room for its next token and was denied a block: one request
// is preempted. First one whose reader is behind, also to admit a new request; else the lowest in
// rank that is not being moved. The best-ranked request that computes is never the victim, so one
// always finishes. One victim at a time; then all denied requests reserve again, behind its
// release. While only moves can bring blocks back, their end leads here again.
void scheduler_machine::make_room(time_us now, effects& out) {
  if (asking_) return;  // once it is answered, that request may be a better victim
  request *paused = nullptr, *victim = nullptr;
  bool lacking = false, leaving = false, best = true;
  for (const auto& [order, id] : running_) {
    auto& r = requests_.at(id);
    // Between steps, a retiring request waits for a move, whose end releases blocks.
    leaving = leaving || std::holds_alternative<life::moving_out>(r.state) ||
              std::holds_alternative<life::retiring>(r.state);
    const bool first = !r.stalled() && std::exchange(best, false);
    const auto* h = r.held();
    if (!h) continue;
    if (r.stalled()) {
      paused = &r;
      continue;
    }
    lacking = lacking || (h->grow == holding::growth::denied && computable(r) == 0);
    if (!first) victim = &r;
  }
  if (leaving || !(lacking || (paused && admission_waits()))) return;
  if (paused) victim = paused;
  if (victim) {
    preempt(*victim, now, out);
    if (std::holds_alternative<life::moving_out>(victim->state))
      return;  // its blocks come back when they are copied
  } else if (!moves_.empty()) {
    return;
  }
  retry_growth();
}

// A queued request could be admitted if there were blocks, or a seat.
bool scheduler_machine::admission_waits() const {
  return (blocked_ || running_.size() >= limits_.max_num_seqs) && next_in_queue() != queue_.end();
}

void scheduler_machine::preempt(request& r, time_us now, effects& out) {
  ++r.preemptions;
  // Of a row that was to be copied nothing is here yet.
  if (auto& h = *r.held(); !h.sources.empty()) h.computed -= h.computed % limits_.block_size;
  const bool parks = worth_parking(r);
  out.emplace_back(preempted{r.id, parks});
  if (parks) {
    auto kept = std::move(*r.held());
    const auto blocks = static_cast<std::uint32_t>(blocks_to_copy(kept, kept.computed).size());
    const parked_copy copy{kept.lease, kept.computed, blocks, kept.trimmed};
    r.state = life::moving_out{std::move(kept), copy, {}};
    next_chunk_out(r, now, out);
    return;
  }
  give_back(*r.lease(), end_reason::cancelled, true, false, out);
  back_to_queue(r, std::nullopt);
}

void scheduler_machine::back_to_queue(request& r, std::optional<parked_copy> copy) {
  if (copy) {
    r.state = life::parked{*copy};
  } else if (r.preemptions > 0 || r.completion() > 0) {
    r.state = life::awaiting_recompute{};
  } else {
    r.state = life::queued{};
  }
  running_.erase(r.order);
  to_fork_.erase(r.order);
  queue_.emplace(r.order, r.id);
}

void scheduler_machine::blocks_came_back() {
  blocked_ = false;
  retry_growth();
}

void scheduler_machine::retry_growth() {
  for (const auto& [order, id] : running_)
    if (auto* h = requests_.at(id).held(); h && h->grow == holding::growth::denied)
      h->grow = holding::growth::none;
}

std::uint32_t scheduler_machine::capacity_of(const holding& h) const {
  return rows_of(h) * limits_.block_size;
}

std::uint32_t scheduler_machine::rows_of(const holding& h) const {
  return static_cast<std::uint32_t>(h.blocks.size()) / limits_.groups();
}

}  // namespace troupe::core
