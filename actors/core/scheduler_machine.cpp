// The events. What follows from them is in advance(); growth and admission, planning and results
// have their own files.
#include "actors/core/scheduler_machine.hpp"

#include <algorithm>
#include <utility>

namespace troupe::core {

namespace {

constexpr time_us audit_interval_us = 1'000'000;

}  // namespace

std::uint64_t scheduler_limits::pool_tokens() const {
  return std::uint64_t{num_blocks} * block_size;
}

std::uint32_t scheduler_limits::effective_context() const {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(model_context, pool_tokens()));
}

scheduler_machine::scheduler_machine(scheduler_limits limits) : limits_(std::move(limits)) {
  std::sort(limits_.end_tokens.begin(), limits_.end_tokens.end());
}

// ---- from sessions

void scheduler_machine::on(const submit& m, time_us now, effects& out) {
  if (find(m.request)) {
    ++ignored_;
  } else if (auto objection = objection_to(m)) {
    out.emplace_back(std::move(*objection));
  } else {
    const rank order{m.priority, ++arrivals_};
    const auto& r =
        requests_.emplace(m.request, make_request(m, order, limits_, now)).first->second;
    queue_.emplace(order, r.id);
    look_again_ = std::min(look_again_, r.next_deadline());
    audited_idle_ = false;
    out.emplace_back(admitted{r.id, r.prompt_tokens});
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

// ---- from the allocator

void scheduler_machine::on(const granted& m, time_us now, effects& out) {
  auto* r = find(m.lease.request);
  if (!r || r->lease() != m.lease) {
    ++ignored_;  // its release is already behind the reserve
  } else if (const auto* asked = std::get_if<life::awaiting_grant>(&r->state)) {
    if (m.blocks.size() != asked->asked)
      out.emplace_back(violation{"a grant brings as many blocks as were asked for"});
    holding fresh;
    fresh.lease = m.lease;
    fresh.blocks = m.blocks;
    r->state = life::prefilling{std::move(fresh)};
    asking_.reset();
    if (!r->granted_at) r->granted_at = now;
  } else if (auto* h = r->held(); h && h->grow == holding::growth::asked) {
    if (m.blocks.size() != 1)
      out.emplace_back(violation{"a grant brings as many blocks as were asked for"});
    h->blocks.insert(h->blocks.end(), m.blocks.begin(), m.blocks.end());
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
    running_.erase(r->order);
    back_to_queue(*r);
  } else if (auto* h = r->held(); h && h->grow == holding::growth::asked) {
    alone = h->alone;
    blocked_ = true;
    h->grow = holding::growth::denied;
  } else {
    ++ignored_;
  }
  if (alone) {  // the pool has lost blocks; waiting would be for ever
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

// ---- from the runtime

void scheduler_machine::on(const tick&, time_us now, effects& out) {
  advance(now, out);
  if (!requests_.empty() && now >= audit_due_) {
    audit_due_ = now + audit_interval_us;
    out.emplace_back(audit{live_leases()});
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

// ---- what every event ends with

void scheduler_machine::advance(time_us now, effects& out) {
  expire(now, out);
  if (!in_flight_) relieve(out);
  grow(out);
  admit(out);
  if (!in_flight_) plan(now, out);
  settle(out);
}

void scheduler_machine::expire(time_us now, effects& out) {
  if (now < look_again_) return;
  look_again_ = never;
  for (auto it = requests_.begin(); it != requests_.end();) {
    auto& r = (it++)->second;
    if (const auto why = r.overdue(now)) {
      close(r, {*why, std::nullopt, {}}, now, out);
    } else {
      look_again_ = std::min(look_again_, r.next_deadline());
    }
  }
}

void scheduler_machine::settle(effects& out) {
  if (!requests_.empty()) return;
  if (!std::exchange(audited_idle_, true)) out.emplace_back(audit{});
  if (draining_ && !std::exchange(stopped_, true)) out.emplace_back(stopped{});
}

// ---- the way out

void scheduler_machine::close(request& r, verdict end, time_us now, effects& out) {
  if (std::holds_alternative<life::retiring>(r.state)) return;  // the first reason wins
  const auto phase = r.phase();
  if (r.in_flight()) {
    r.state = life::retiring{*r.lease(), std::move(end), phase};
  } else {
    finish(r, end, phase, now, out);
  }
}

void scheduler_machine::finish(request& r, const verdict& end, life_phase phase, time_us now,
                               effects& out) {
  if (const auto lease = r.lease()) give_back(*lease, end.why, false, out);
  ended e;
  e.request = r.id;
  e.why = end.why;
  e.stop_token = end.stop_token;
  e.prompt_tokens = r.prompt_tokens;
  e.completion_tokens = r.completion();
  e.preemptions = r.preemptions;
  e.phase = phase;
  e.times = r.times(now);
  e.message = end.message;
  out.emplace_back(std::move(e));
  if (asking_ == r.id) asking_.reset();
  queue_.erase(r.order);
  running_.erase(r.order);
  requests_.erase(requests_.find(r.id));
}

// The only place that releases. Callers leave the state that named the lease in the same
// transition.
void scheduler_machine::give_back(lease_id lease, end_reason why, bool preempted,
                                  effects& out) const {
  out.emplace_back(release{lease, why, preempted});
}

// ---- looking

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
  return static_cast<std::uint32_t>(queue_.size());
}
bool scheduler_machine::idle() const {
  return requests_.empty() && !in_flight_;
}
bool scheduler_machine::step_in_flight() const {
  return in_flight_.has_value();
}
std::uint64_t scheduler_machine::ignored_events() const {
  return ignored_;
}

std::vector<lease_id> scheduler_machine::live_leases() const {
  std::vector<lease_id> live;
  for (const auto& [order, id] : running_) live.push_back(*requests_.at(id).lease());
  std::sort(live.begin(), live.end());
  return live;
}

}  // namespace troupe::core
