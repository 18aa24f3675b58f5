// The events of the scheduler. What follows from each is in advance(); admission, planning, results
// and moves have files of their own.
#include "actors/core/scheduler_machine.hpp"

#include <algorithm>
#include <utility>

namespace troupe::core {

namespace {

constexpr time_us audit_interval_us = 1'000'000;

std::string message_for(end_reason overdue, const scheduler_limits& limits) {
  if (overdue != end_reason::slow_reader) return {};
  return "the reader did not catch up within " + std::to_string(limits.stall_limit_us / 1000) +
         " ms";
}

}  // namespace

scheduler_machine::scheduler_machine(scheduler_limits limits) : limits_(std::move(limits)) {
  // Every decoding request has a row in every step, so no more may run than a step has tokens for.
  limits_.max_num_seqs = std::min(limits_.max_num_seqs, limits_.max_num_batched_tokens);
  std::sort(limits_.end_tokens.begin(), limits_.end_tokens.end());
}

// ---- from sessions

void scheduler_machine::on(const submit& m, time_us now, effects& out) {
  const bool known =
      find(m.request) || std::any_of(m.tails.begin(), m.tails.end(),
                                     [this](auto& x) { return find(x.request) != nullptr; });
  if (known) {
    ++ignored_;
  } else if (auto objection = objection_to(m)) {
    for (const auto& tail : m.tails)
      out.emplace_back(refused{tail.request, objection->why, objection->message});
    out.emplace_back(std::move(*objection));
  } else {
    const rank order{m.priority, ++arrivals_};
    auto& r = requests_.emplace(m.request, make_request(m, order, limits_, now)).first->second;
    queue_.emplace(order, r.id);
    next_check_ = std::min(next_check_, r.next_deadline());
    audited_idle_ = false;
    out.emplace_back(admitted{r.id, r.prompt_tokens});
    admit_tails(m, r, out);
  }
  advance(now, out);
}

void scheduler_machine::on(const cancel& m, time_us now, effects& out) {
  auto* r = find(m.request);
  if (!r || std::holds_alternative<life::retiring>(r->state)) {
    ++ignored_;  // unknown, finished or already ending: the first reason won
  } else {
    close(*r, {m.why, std::nullopt, {}}, now, out);
  }
  advance(now, out);
}

// A stalled request keeps its blocks, but is the first to be preempted when others need them
// (make_room). The step in flight may still bring it one token.
void scheduler_machine::on(const reader_stalled& m, time_us now, effects& out) {
  auto* r = find(m.request);
  if (!r || r->stalled() || std::holds_alternative<life::retiring>(r->state)) {
    ++ignored_;
  } else {
    r->reader_by =
        limits_.stall_limit_us > 0 ? now + static_cast<time_us>(limits_.stall_limit_us) : never;
    next_check_ = std::min(next_check_, *r->reader_by);
    if (!r->in_flight()) hand_over(*r);  // its tails must not wait for its reader
  }
  advance(now, out);
}

void scheduler_machine::on(const reader_resumed& m, time_us now, effects& out) {
  auto* r = find(m.request);
  if (!r || !r->stalled() || std::holds_alternative<life::retiring>(r->state)) {
    ++ignored_;
  } else {
    r->reader_by.reset();
    if (const auto* waits = std::get_if<life::awaiting_fork>(&r->state))
      if (auto& leader = requests_.at(waits->leader); leader.stalled() && !leader.in_flight())
        hand_over(leader);
  }
  advance(now, out);
}

// ---- from the allocator

void scheduler_machine::on(const granted& m, time_us now, effects& out) {
  auto* r = find(m.lease.request);
  if (!r || r->lease() != m.lease) {
    ++ignored_;  // the lease is closed; its release follows the reserve on the same path
  } else if (const auto* asked = std::get_if<life::awaiting_grant>(&r->state)) {
    if (m.blocks.size() != asked->asked * limits_.groups())
      out.emplace_back(violation{"a grant brings as many blocks as were asked for"});
    holding fresh;
    fresh.lease = m.lease;
    fresh.blocks = m.blocks;
    fresh.published = m.cached;
    fresh.computed = m.cached * limits_.block_size;
    asking_.reset();
    if (!r->granted_at) {
      r->granted_at = now;
      r->cached_tokens = fresh.computed;
    }
    on_leader_granted(*r, now);
    if (auto copy = asked->copy) {
      // The copy has nothing for these rows, and nothing will look at them.
      for (std::uint32_t g = 0; g < copy->trimmed.size(); ++g)
        trim_group(fresh, g, copy->trimmed[g], out);
      r->state = life::moving_in{std::move(fresh), *copy, {}};
      next_chunk_in(*r, now, out);
    } else {
      r->state = life::prefilling{std::move(fresh)};
    }
  } else if (std::holds_alternative<life::forking>(r->state)) {
    forked(*r, m, out);
  } else if (auto* h = r->held(); h && h->grow == holding::growth::asked) {
    if (m.blocks.size() != limits_.groups())
      out.emplace_back(violation{"a grant brings as many blocks as were asked for"});
    h->blocks.append(m.blocks);
    h->grow = holding::growth::none;
  } else {
    ++ignored_;  // retiring, or a duplicate
  }
  advance(now, out);
}

void scheduler_machine::on(const denied& m, time_us now, effects& out) {
  static constexpr const char* alone_denied = "a request that alone uses the pool is never denied";
  auto* r = find(m.lease.request);
  bool alone = false;
  if (!r || r->lease() != m.lease) {
    ++ignored_;
  } else if (const auto* asked = std::get_if<life::awaiting_grant>(&r->state)) {
    alone = asked->alone;
    blocked_ = true;
    asking_.reset();
    back_to_queue(*r, asked->copy);
  } else if (std::holds_alternative<life::forking>(r->state)) {
    blocked_ = true;
    back_to_queue(*r, std::nullopt);
  } else if (auto* h = r->held(); h && h->grow == holding::growth::asked) {
    alone = h->alone;
    blocked_ = true;
    h->grow = holding::growth::denied;
  } else {
    ++ignored_;
  }
  if (alone) {  // an empty pool denied a request that fits it: blocks were lost, it would wait for
                // ever
    out.emplace_back(violation{alone_denied});
    close(*r,
          {end_reason::engine_failed, std::nullopt,
           "the KV pool no longer has room for this request alone"},
          now, out);
  }
  advance(now, out);
}

void scheduler_machine::on(const released& m, time_us now, effects& out) {
  if (m.blocks > 0) blocks_came_back();
  advance(now, out);
}

// New requests are measured against the smaller pool. One admitted before that no longer fits is
// denied when it is alone, and ends by that.
void scheduler_machine::on(const lost& m, time_us now, effects& out) {
  limits_.lost_blocks += m.blocks;
  advance(now, out);
}

// ---- from the runtime

void scheduler_machine::on(const tick&, time_us now, effects& out) {
  advance(now, out);
  if (!requests_.empty() && now >= audit_due_) {
    audit_due_ = now + audit_interval_us;
    out.emplace_back(census());
  }
}

void scheduler_machine::on(const drain&, time_us now, effects& out) {
  if (draining_) ++ignored_;
  draining_ = true;
  advance(now, out);
}

void scheduler_machine::on(const stop& m, time_us now, effects& out) {
  draining_ = true;
  for (auto it = requests_.begin(); it != requests_.end();) {
    auto& r = (it++)->second;  // close() may erase it
    close(r, {m.why, std::nullopt, m.message}, now, out);
  }
  advance(now, out);
}

// ---- what follows from every event

void scheduler_machine::advance(time_us now, effects& out) {
  expire(now, out);
  trim_behind_windows(out);
  if (!in_flight_) make_room(now, out);
  grow(out);
  admit(out);
  if (!in_flight_) plan(now, out);
  report_when_empty(out);
}

void scheduler_machine::expire(time_us now, effects& out) {
  if (now < next_check_) return;
  next_check_ = never;
  for (auto it = requests_.begin(); it != requests_.end();) {
    auto& r = (it++)->second;
    if (const auto why = r.overdue(now)) {
      close(r, {*why, std::nullopt, message_for(*why, limits_)}, now, out);
    } else {
      next_check_ = std::min(next_check_, r.next_deadline());
    }
  }
  std::vector<move_id> late;
  for (const auto& [id, m] : moves_) {
    if (m.abandoned) continue;
    if (now >= m.by)
      late.push_back(id);
    else
      next_check_ = std::min(next_check_, m.by);
  }
  for (const auto id : late) abandon(id, now, out);
}

void scheduler_machine::report_when_empty(effects& out) {
  if (!requests_.empty() || !moves_.empty()) return;
  if (!std::exchange(audited_idle_, true)) out.emplace_back(census());
  if (draining_ && !std::exchange(stopped_, true)) out.emplace_back(stopped{});
}

// ---- ends

void scheduler_machine::close(request& r, verdict end, time_us now, effects& out) {
  if (std::holds_alternative<life::retiring>(r.state)) return;  // the first reason wins
  const auto phase = r.phase();
  if (r.in_flight() || r.move()) {
    if (r.move()) hand_over(r);  // a step may yet bring the tails' tokens, a move brings nothing
    r.state = life::retiring{*r.lease(), std::move(end), phase, r.move(), r.copy()};
  } else {
    finish(r, end, phase, now, out);
  }
}

void scheduler_machine::finish(request& r, const verdict& end, life_phase phase, time_us now,
                               effects& out) {
  const bool gone = end.why == end_reason::client_gone && !r.keep_prefix;
  // The content of these blocks cannot be trusted, so they must not answer another request.
  const bool suspect = end.why == end_reason::bad_logits || end.why == end_reason::step_failed;
  if (const auto lease = r.lease()) give_back(*lease, end.why, false, gone || suspect, out);
  if (const auto copy = r.copy()) out.emplace_back(drop_parked{*copy});
  ended e;
  e.request = r.id;
  e.why = end.why;
  e.stop_token = end.stop_token;
  e.prompt_tokens = r.prompt_tokens;
  e.completion_tokens = r.completion();
  e.cached_tokens = r.cached_tokens;
  e.preemptions = r.preemptions;
  e.phase = phase;
  e.times = r.times(now);
  e.message = end.message;
  out.emplace_back(std::move(e));
  if (asking_ == r.id) asking_.reset();
  hand_over(r);
  leave_group(r);
  queue_.erase(r.order);
  running_.erase(r.order);
  to_fork_.erase(r.order);
  requests_.erase(requests_.find(r.id));
}

// The only place that emits a release. Callers leave the state that named the lease in the same
// transition, so no lease is released twice.
void scheduler_machine::give_back(lease_id lease, end_reason why, bool preempted, bool forget,
                                  effects& out) const {
  out.emplace_back(release{lease, why, preempted, forget});
}

// From now on other requests may find the full blocks whose tokens are computed. Called after the
// step that computed them, never before: a block must not be shared while it is being written.
void scheduler_machine::publish_computed(request& r, effects& out) const {
  auto* h = r.held();
  const auto full = h->computed / limits_.block_size;
  if (!limits_.prefix_caching || full <= h->published) return;
  const auto first = r.tokens.begin() + h->published * limits_.block_size;
  out.emplace_back(
      publish{h->lease, h->published, {first, r.tokens.begin() + full * limits_.block_size}});
  h->published = full;
}

// ---- questions

request* scheduler_machine::find(request_id id) {
  const auto it = requests_.find(id);
  return it == requests_.end() ? nullptr : &it->second;
}

request_state scheduler_machine::state_of(request_id id) const {
  const auto it = requests_.find(id);
  return it == requests_.end() ? request_state::gone : core::state_of(it->second);
}

std::uint32_t scheduler_machine::running() const {
  return static_cast<std::uint32_t>(running_.size());
}
std::uint32_t scheduler_machine::waiting() const {
  return static_cast<std::uint32_t>(queue_.size() + to_fork_.size());
}
bool scheduler_machine::idle() const {
  return requests_.empty() && !in_flight_ && moves_.empty();
}
bool scheduler_machine::at_rest() const {
  return !in_flight_ && moves_.empty() &&
         std::all_of(requests_.begin(), requests_.end(),
                     [](const auto& x) { return x.second.stalled(); });
}
bool scheduler_machine::step_in_flight() const {
  return in_flight_.has_value();
}
std::uint64_t scheduler_machine::ignored_events() const {
  return ignored_;
}

audit scheduler_machine::census() const {
  audit all;
  for (const auto& [id, r] : requests_) {
    if (const auto lease = r.lease()) all.live.push_back(*lease);
    if (const auto copy = r.copy()) all.parked.push_back(*copy);
  }
  for (const auto& [id, m] : moves_) {
    if (!m.abandoned) continue;
    all.live.push_back(m.lease);
    all.parked.push_back(m.copy);
  }
  std::sort(all.live.begin(), all.live.end());
  std::sort(all.parked.begin(), all.parked.end());
  return all;
}

}  // namespace troupe::core
