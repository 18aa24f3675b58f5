// The scheduler's invariants, checked from its structures, and the hash of its whole state.
#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "actors/core/scheduler_machine.hpp"

namespace troupe::core {

const char* name_of(request_state x) {
  static constexpr std::array<const char*, request_state_count> names{"received",
                                                                      "tokenizing",
                                                                      "queued",
                                                                      "awaiting_fork",
                                                                      "awaiting_grant",
                                                                      "forking",
                                                                      "prefilling",
                                                                      "prefilling_in_flight",
                                                                      "decoding",
                                                                      "decoding_in_flight",
                                                                      "awaiting_recompute",
                                                                      "moving_out",
                                                                      "parked",
                                                                      "moving_in",
                                                                      "paused",
                                                                      "retiring",
                                                                      "gone"};
  return names.at(static_cast<std::size_t>(x));
}

namespace {

// What must hold within one request, independently of the others.
std::string broken_in(const request& r, const scheduler_limits& limits) {
  if (r.size() < r.prompt_tokens || r.prompt_tokens == 0) return "a request keeps its prompt";
  if (r.max_tokens > 0 && r.completion() >= r.max_tokens &&
      !std::holds_alternative<life::retiring>(r.state))
    return "a request with all its tokens has ended";
  if (r.cached_at_most() > std::uint64_t{limits.num_blocks} * limits.block_size)
    return "a request fits the pool alone";
  if (const auto lease = r.lease(); lease && *lease != lease_id{r.id, r.epoch})
    return "a request's lease is its latest";
  const auto* h = r.held();
  if (!h) return {};
  if (h->blocks.size() % limits.groups() != 0) return "a request holds whole rows";
  if (std::uint64_t{h->blocks.size() / limits.groups()} * limits.block_size < h->computed)
    return "computed tokens lie in the blocks of the request";
  if (std::uint64_t{h->published} * limits.block_size > h->computed)
    return "only computed blocks are published";
  const bool decodes = std::holds_alternative<life::decoding>(r.state) ||
                       std::holds_alternative<life::decoding_in_flight>(r.state);
  if (decodes && h->computed + 1 != r.size()) return "a decoding request lacks one token";
  for (std::uint32_t g = 0; g < h->trimmed.size(); ++g)
    if (h->trimmed[g] > limits.rows_behind_window(g, h->computed))
      return "only rows behind a group's window were given back";
  if (!h->sources.empty() && !(decodes && h->computed == r.prompt_tokens))
    return "only a fork that has computed nothing yet waits for a copy";
  if (!decodes && h->computed >= r.size()) return "a prefilling request has tokens to compute";
  if (const auto* p = std::get_if<life::prefilling_in_flight>(&r.state))
    if (p->chunk == 0 || h->computed + p->chunk > r.size())
      return "a chunk lies within its request";
  return {};
}

}  // namespace

// A block is shared only when all its tokens are computed, and is never written after that.
std::string scheduler_machine::broken_sharing(const request& r,
                                              std::map<block_id, bool>& seen) const {
  const auto* h = r.held();
  if (!h) return {};
  for (std::size_t i = 0; i < h->blocks.size(); ++i) {
    const auto row = i / limits_.groups(), group = i % limits_.groups();
    const bool trimmed = !h->trimmed.empty() && row < h->trimmed.at(group);
    if (trimmed != (h->blocks[i] == no_block)) return "the table marks what was given back";
    if (trimmed) continue;
    if (h->blocks[i] / limits_.num_blocks != group) return "a block lies in its group's pool";
    const bool full = (row + 1) * limits_.block_size <= h->computed;
    const auto [other, first] = seen.emplace(h->blocks[i], full);
    if (!first && !(full && other->second)) return "a block that is written has one holder";
  }
  return {};
}

// No tail waits for something that cannot come: its leader is here, names it, and has not begun to
// end but for the step in flight.
std::string scheduler_machine::broken_group(const request& r) const {
  if (const auto* f = std::get_if<life::awaiting_fork>(&r.state)) {
    const auto leader = requests_.find(f->leader);
    if (leader == requests_.end() ||
        std::count(leader->second.tails.begin(), leader->second.tails.end(), r.id) != 1)
      return "a tail waits for a leader that knows it";
    if (!r.tails.empty()) return "a tail has no tails of its own";
    if (r.completion() > 0) return "a tail without a lease has no token";
  }
  for (const auto tail : r.tails) {
    const auto found = requests_.find(tail);
    const auto* f =
        found == requests_.end() ? nullptr : std::get_if<life::awaiting_fork>(&found->second.state);
    if (!f || f->leader != r.id) return "a leader's tails wait for it";
  }
  if (!r.tails.empty() && r.completion() > 0)
    return "a leader with its first token has no tails any more";
  return {};
}

std::string scheduler_machine::check() const {
  if (queue_.size() + running_.size() + to_fork_.size() != requests_.size())
    return "every request is queued, running or waits for a fork";
  if (running_.size() > limits_.max_num_seqs) return "no more run than may";
  std::set<request_id> in_step;
  if (in_flight_) {
    in_step.insert(in_flight_->items.begin(), in_flight_->items.end());
    if (in_step.empty() || in_step.size() != in_flight_->items.size())
      return "a step names at least one request, and none twice";
    if (in_flight_->step.value != steps_) return "the step in flight is the last planned";
  }
  std::size_t asking = 0, named = 0, pinned_by_moves = 0;
  std::map<block_id, bool> blocks;  // true: every holder has it full and computed
  for (const auto& [id, r] : requests_) {
    if (auto broken = broken_in(r, limits_); !broken.empty()) return broken;
    if (auto broken = broken_group(r); !broken.empty()) return broken;
    const bool forks = std::holds_alternative<life::awaiting_fork>(r.state);
    const auto& index = r.lease() ? running_ : forks ? to_fork_ : queue_;
    const auto place = index.find(r.order);
    if (r.id != id || place == index.end() || place->second != id)
      return "a request is in the queue or running, as its state says";
    const auto* e = std::get_if<life::retiring>(&r.state);
    const bool pinned = r.in_flight() || (e && !e->move);
    if (pinned != in_step.contains(id)) return "in flight and retiring are those the step names";
    named += pinned ? 1 : 0;
    if (const auto move = r.move()) {
      const auto m = moves_.find(*move);
      if (m == moves_.end() || m->second.abandoned || m->second.request != id ||
          m->second.lease != *r.lease() || m->second.copy != r.copy())
        return "a moving request is named by the move it waits for";
      ++pinned_by_moves;
    }
    if (std::holds_alternative<life::awaiting_grant>(r.state)) {
      ++asking;
      if (asking_ != id) return "the request that awaits a grant is the one asking";
    }
    if (auto broken = broken_sharing(r, blocks); !broken.empty()) return broken;
  }
  if (pinned_by_moves !=
      static_cast<std::size_t>(std::count_if(moves_.begin(), moves_.end(),
                                             [](const auto& m) { return !m.second.abandoned; })))
    return "a move is waited for by one request, or abandoned";
  if (asking != (asking_ ? 1u : 0u)) return "one asks at a time";
  if (named != in_step.size()) return "every request that the step names is known";
  return {};
}

void scheduler_machine::add_to(state_hash& h) const {
  h.add(requests_.size());
  for (const auto& [id, r] : requests_) r.add_to(h);
  for (const auto& [order, id] : queue_) h.add(id);
  for (const auto& [order, id] : running_) h.add(id);
  for (const auto& [order, id] : to_fork_) h.add(id);
  h.add(asking_).add(in_flight_.has_value());
  if (in_flight_) h.add(in_flight_->step).add(in_flight_->items);
  h.add(moves_.size());
  for (const auto& [id, m] : moves_) {
    h.add(id).add(m.request).add(m.lease).add(m.copy).add(m.out).add(m.abandoned).add(m.blocks);
    h.add_due(m.by);
  }
  // Estimates are at most 10 s per token. With a longer target time they decide nothing, and would
  // only multiply the explorer's states.
  if (limits_.max_step_us < 10'000'000ull * limits_.max_num_batched_tokens) cost_.add_to(h);
  h.add(blocked_).add(draining_).add(stopped_).add(audited_idle_).add(limits_.lost_blocks);
  h.add_due(next_check_).add_due(audit_due_);
}

}  // namespace troupe::core
