#include "tests/actors/core/scheduler_world.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <type_traits>

namespace troupe::core::testing {

namespace {

void must(bool ok, const char* rule) {
  if (!ok) FAIL(rule);
}
void must(bool ok, const char* rule, request_id id) {
  if (!ok) FAIL(rule << " request " << id.value);
}

std::string text(request_id id) {
  return "request " + std::to_string(id.value);
}

}  // namespace

scheduler_limits roomy_limits() {
  scheduler_limits l;
  l.max_num_seqs = 8;
  l.max_num_batched_tokens = 256;
  l.max_step_us = 1'000'000;
  l.max_num_queued_reqs = 64;
  l.block_size = 16;
  l.num_blocks = 256;
  l.model_context = 4096;
  l.end_tokens = {0};
  l.vocab = 1000;
  return l;
}

std::vector<token_id> prompt_of(std::uint32_t count, std::uint64_t seed) {
  std::vector<token_id> out;
  for (std::uint32_t i = 0; i < count; ++i)
    out.push_back(static_cast<token_id>(1 + (seed * 7919 + i * 31 + i / 7) % 998));
  return out;
}

submit make_submit(std::uint64_t id, std::uint32_t prompt_tokens, std::uint32_t max_tokens) {
  submit s;
  s.request = request_id{id};
  s.prompt = prompt_of(prompt_tokens, id);
  s.decode.max_tokens = max_tokens;
  return s;
}

scheduler_world::scheduler_world(scheduler_limits limits)
    : machine(limits),
      ledger({limits.num_blocks * limits.groups(), limits.block_size, limits.prefix_caching,
              limits.groups()}),
      limits_(limits),
      memory_(std::size_t{limits.num_blocks} * limits.groups() * limits.block_size, -1) {}

void scheduler_world::perform() {
  for (const auto& e : last_effects) {
    if (const auto* a = std::get_if<admitted>(&e)) {
      ++clients[a->request].admitted;
    } else if (const auto* r = std::get_if<refused>(&e)) {
      ++clients[r->request].refused;
      clients[r->request].refusal = *r;
    } else if (const auto* t = std::get_if<tokens_out>(&e)) {
      auto& c = clients[t->request];
      must(c.ended == 0, "no token after the end of", t->request);
      must(!dying_.contains(t->request), "no token after the cancel of", t->request);
      if (t->token) c.tokens.push_back(t->token->token);
      for (const auto& s : t->prompt_scores) c.scores.push_back(s.token);
    } else if (const auto* x = std::get_if<ended>(&e)) {
      auto& c = clients[x->request];
      must(c.admitted == 1 && ++c.ended == 1, "one end for", x->request);
      must(c.tokens.size() == x->completion_tokens, "every counted token was told once");
      c.end = *x;
    } else if (const auto* w = std::get_if<reserve>(&e)) {
      ++leases_[w->lease].asked;
      must(leases_[w->lease].released == 0, "nothing is asked for a released lease");
      to_allocator_.emplace_back(*w);
    } else if (const auto* f = std::get_if<fork_lease>(&e)) {
      must(++leases_[f->child].asked == 1, "a fork begins a lease");
      must(leases_[f->parent].asked > 0 && leases_[f->parent].released == 0,
           "what is forked is not released");
      must(!dying_.contains(f->child.request), "the dying are not forked", f->child.request);
      to_allocator_.emplace_back(*f);
    } else if (const auto* s = std::get_if<drop_source>(&e)) {
      must(leases_[s->lease].released == 0, "a source is dropped before its lease goes");
      to_allocator_.emplace_back(*s);
    } else if (const auto* c = std::get_if<trim>(&e)) {
      must(leases_[c->lease].released == 0, "a lease is trimmed before it goes");
      must(!planned(c->lease.request.value), "no lease is trimmed while a step reads its blocks",
           c->lease.request);
      to_allocator_.emplace_back(*c);
    } else if (const auto* g = std::get_if<release>(&e)) {
      must(leases_[g->lease].asked > 0, "a released lease was asked for");
      must(++leases_[g->lease].released == 1, "a lease is released once");
      to_allocator_.emplace_back(*g);
    } else if (const auto* b = std::get_if<publish>(&e)) {
      must(leases_[b->lease].released == 0, "nothing is published for a released lease");
      to_allocator_.emplace_back(*b);
    } else if (const auto* o = std::get_if<move_out>(&e)) {
      must(o->blocks.size() <= limits_.move_chunk_blocks, "a chunk is bounded");
      must(!dying_.contains(o->lease.request), "no move begins for the dying", o->lease.request);
      must(!planned(o->lease.request.value), "no move begins while a step writes the blocks of",
           o->lease.request);
      to_mover_.emplace_back(*o);
    } else if (const auto* i = std::get_if<move_in>(&e)) {
      must(i->blocks.size() <= limits_.move_chunk_blocks, "a chunk is bounded");
      must(!dying_.contains(i->parked.request), "no move begins for the dying", i->parked.request);
      to_mover_.emplace_back(*i);
    } else if (const auto* d = std::get_if<drop_parked>(&e)) {
      to_mover_.emplace_back(*d);
    } else if (const auto* q = std::get_if<preempted>(&e)) {
      ++preemptions;
      must(someone_better_runs(q->request),
           "the best-ranked of those who run never gives way:", q->request);
      parks += q->parked ? 1 : 0;
    } else if (std::holds_alternative<move_abandoned>(e)) {
      ++given_up;
    } else if (const auto* u = std::get_if<audit>(&e)) {
      ++audits;
      to_allocator_.emplace_back(*u);
      to_mover_.emplace_back(*u);
    } else if (const auto* p = std::get_if<step_plan>(&e)) {
      accept_plan(*p);
    } else if (std::holds_alternative<stopped>(e)) {
      ++stops;
    } else if (const auto* v = std::get_if<violation>(&e)) {
      FAIL("violation: " << v->invariant);
    }
  }
}

bool scheduler_world::someone_better_runs(request_id id) const {
  if (stalled_.contains(id)) return true;  // whoever waits for its reader gives way to all
  return std::any_of(ranks_.begin(), ranks_.end(), [&](const auto& x) {
    const auto s = machine.state_of(x.first);
    return x.second < ranks_.at(id) && !stalled_.contains(x.first) && s != request_state::gone &&
           s != request_state::queued && s != request_state::parked &&
           s != request_state::awaiting_fork && s != request_state::awaiting_recompute;
  });
}

void scheduler_world::accept_plan(const step_plan& p) {
  must(!plan_, "a step is planned only when none is in flight");
  must(p.step.value == ++steps, "step ids are consecutive");
  must(!p.items.empty(), "a plan is never empty");
  must(p.items.size() <= limits_.max_num_seqs, "a plan has at most max_num_seqs rows");
  std::size_t tokens = 0;
  for (const auto& item : p.items) {
    tokens += item.tokens.size();
    must(!item.tokens.empty(), "an item has tokens");
    must(!dying_.contains(item.request), "no plan names the dying", item.request);
    must(clients[item.request].ended == 0, "no plan names the ended", item.request);
    must(!stalled_.contains(item.request), "no plan names one whose reader is behind",
         item.request);
    for (const auto& tail : item.tails)
      must(machine.state_of(tail.request) == request_state::awaiting_fork,
           "a plan draws tokens for those who wait for them:", tail.request);
    must(item.blocks.size() / limits_.groups() * limits_.block_size >=
             item.start + item.tokens.size(),
         "every token has a place");
    must(item.score_targets.empty() || item.score_targets.size() == item.tokens.size(),
         "one target per token");
  }
  must(tokens <= limits_.max_num_batched_tokens, "a plan has at most max_num_batched_tokens");
  plan_ = p;
}

bool scheduler_world::planned(std::uint64_t id) const {
  return plan_ && std::any_of(plan_->items.begin(), plan_->items.end(),
                              [&](const auto& i) { return i.request.value == id; });
}

std::uint32_t scheduler_world::blocks_of(std::uint64_t id) const {
  std::size_t n = 0;
  for (const auto& [lease, blocks] : blocks_)
    if (lease.request.value == id)
      n += blocks.size() -
           static_cast<std::size_t>(std::count(blocks.begin(), blocks.end(), no_block));
  return static_cast<std::uint32_t>(n);
}

bool scheduler_world::allocate_one() {
  if (to_allocator_.empty()) return false;
  const auto m = to_allocator_.front();
  to_allocator_.pop_front();
  if (const auto* w = std::get_if<reserve>(&m)) {
    const bool forced = deny && deny(*w);
    if (auto got = forced ? std::nullopt : ledger.reserve(*w)) {
      auto& held = blocks_[w->lease];
      held.insert(held.end(), got->blocks.begin(), got->blocks.end());
      hits += got->cached;
      from_allocator_.emplace_back(granted{w->lease, got->blocks, got->cached});
    } else {
      if (!blocks_.contains(w->lease)) leases_[w->lease].denied = 1;
      from_allocator_.emplace_back(denied{w->lease});
    }
  } else if (const auto* f = std::get_if<fork_lease>(&m)) {
    allocate(*f);
  } else if (const auto* d = std::get_if<drop_source>(&m)) {
    const auto usable = ledger.drop_source(d->lease);
    must(usable.has_value() && sources_.erase(d->lease) == 1, "a source that is kept is dropped");
    if (*usable > 0) from_allocator_.emplace_back(released{d->lease, *usable, true});
  } else if (const auto* t = std::get_if<trim>(&m)) {
    const auto usable = ledger.trim(*t);
    must(usable.has_value(), "what is trimmed was held");
    for (std::uint32_t row = 0; row < t->rows; ++row) {
      auto& place = blocks_.at(t->lease).at(row * limits_.groups() + t->group);
      trimmed += std::exchange(place, no_block) == no_block ? 0 : 1;
    }
    if (*usable > 0) from_allocator_.emplace_back(released{t->lease, *usable, true});
  } else if (const auto* g = std::get_if<release>(&m)) {
    const auto n = ledger.release(*g);
    sources_.erase(g->lease);
    std::erase(blocks_[g->lease], no_block);
    must(n.held == blocks_[g->lease].size(), "a release gives back what was granted");
    blocks_.erase(g->lease);
    from_allocator_.emplace_back(released{g->lease, n.usable});
  } else if (const auto* b = std::get_if<publish>(&m)) {
    const auto bs = limits_.block_size;
    const auto& held = blocks_[b->lease];
    for (std::size_t i = 0; i < b->tokens.size() * limits_.groups(); ++i) {
      const auto token = i / limits_.groups(), group = i % limits_.groups();
      const auto block = held.at((b->first + token / bs) * limits_.groups() + group);
      must(block == no_block || memory_[block * bs + token % bs] == b->tokens[token],
           "what is published is what is computed");
    }
    must(ledger.publish(*b), "what is published follows what was");
  } else {
    must(ledger.quarantine_unknown(std::get<audit>(m).live) == 0, "an audit finds no leak");
  }
  if (const auto broken = ledger.check(); !broken.empty()) FAIL(broken);
  check(false);
  return true;
}

bool scheduler_world::finish_step() {
  if (!plan_) return false;
  const auto done = execute();
  plan_.reset();
  returning_ = true;
  now += step_us;
  send(done);
  return true;
}

bool scheduler_world::break_step(const std::string& what) {
  if (!plan_) return false;
  const auto step = plan_->step;
  plan_.reset();
  returning_ = true;
  send(step_failed{step, what});
  return true;
}

void scheduler_world::settle_allocator() {
  const auto no_move = [this] {
    return !to_mover_.empty() && (std::holds_alternative<drop_parked>(to_mover_.front()) ||
                                  std::holds_alternative<audit>(to_mover_.front()));
  };
  while (allocate_one() || answer_one() || (no_move() && move_one())) {
  }
}

void scheduler_world::run_to_rest() {
  while (allocate_one() || answer_one() || move_one()) {
  }
}

void scheduler_world::run(int steps_max) {
  run_to_rest();
  while (steps_max-- > 0 && finish_step()) run_to_rest();
}

bool scheduler_world::names(const std::set<lease_id>& leases, request_id id,
                            const std::vector<block_id>& named) const {
  return std::any_of(blocks_.begin(), blocks_.end(), [&](const auto& x) {
    const auto& [lease, held] = x;
    return lease.request == id && (leases.empty() || leases.contains(lease)) &&
           std::all_of(named.begin(), named.end(), [&, &blocks = held](block_id b) {
             return b == no_block || std::find(blocks.begin(), blocks.end(), b) != blocks.end();
           });
  });
}

void scheduler_world::check(bool step_returned) const {
  if (const auto broken = machine.check(); !broken.empty()) FAIL(broken);
  std::vector<int> holders(std::size_t{limits_.num_blocks} * limits_.groups(), 0);
  for (const auto& [lease, blocks] : blocks_)
    for (const auto block : blocks)
      if (block != no_block) ++holders[block];
  const auto c = ledger.counts();
  auto users = holders;
  for (const auto& [lease, row] : sources_)
    for (const auto block : row) ++users[block];
  const auto held = std::count_if(users.begin(), users.end(), [](int n) { return n > 0; });
  must(static_cast<std::uint32_t>(held) == c.leased &&
           c.free + c.leased + c.cached + c.quarantined == c.total,
       "blocks are conserved");
  if (plan_) {
    must(machine.step_in_flight(), "the machine knows of the step in flight");
    for (const auto& item : plan_->items) {
      must(names({}, item.request, {item.blocks.begin(), item.blocks.end()}),
           "the step in flight reads only blocks its request holds:", item.request);
      must(item.copy_from.empty() || keeps(item.request, item.copy_from),
           "the step in flight copies only a block kept for its request:", item.request);
      for (auto p = item.start; p < item.start + item.tokens.size(); ++p)
        for (std::uint32_t g = 0; g < limits_.groups(); ++g)
          must(holders.at(item.blocks[p / limits_.block_size * limits_.groups() + g]) == 1,
               "a shared block is never written");
    }
  }
  for (const auto& m : to_mover_) {
    if (const auto* o = std::get_if<move_out>(&m))
      must(names({}, o->lease.request, o->blocks), "a move out names blocks its lease holds");
    if (const auto* i = std::get_if<move_in>(&m)) {
      must(names({}, i->parked.request, i->blocks), "a move in names blocks its request holds");
      for (const auto block : i->blocks)
        must(holders[block] == 1, "a move never writes a shared block");
    }
  }
  for (const auto id : stalled_)
    must(machine.state_of(id) != request_state::prefilling &&
             machine.state_of(id) != request_state::decoding,
         "a stalled resident is paused:", id);
  for (const auto id : dying_) {
    const auto s = machine.state_of(id);
    must(s == request_state::gone || s == request_state::retiring,
         "a cancelled request lives on:", id);
    const bool moves = std::any_of(to_mover_.begin(), to_mover_.end(), [&, id = id](const auto& m) {
      const auto* o = std::get_if<move_out>(&m);
      const auto* i = std::get_if<move_in>(&m);
      return (o && o->lease.request == id) || (i && i->parked.request == id);
    });
    must(!step_returned || moves || s == request_state::gone,
         "a cancelled request outlives the step that named it:", id);
  }
}

void scheduler_world::require_whole() const {
  REQUIRE(machine.idle());
  REQUIRE(machine.running() + machine.waiting() == 0);
  REQUIRE(to_allocator_.empty());
  REQUIRE(from_allocator_.empty());
  const auto c = ledger.counts();
  REQUIRE(c.free + c.cached == c.total);
  REQUIRE(host.empty());
  REQUIRE(to_mover_.empty());
  REQUIRE(c.allocated_total == c.released_total);
  for (const auto& [lease, story] : leases_) {
    INFO("lease " << lease.request.value << "." << lease.epoch);
    // A lease denied from the start is closed by that, unless a cancel had sent its release before
    // the answer.
    REQUIRE((story.released == 1 || (story.released == 0 && story.denied == 1)));
  }
  for (const auto& [id, c2] : clients) {
    INFO(text(id));
    REQUIRE(c2.admitted == c2.ended);
    REQUIRE(c2.admitted + c2.refused == 1);
  }
}

}  // namespace troupe::core::testing
