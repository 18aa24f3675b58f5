// The fake device of the world, what must never happen on it, and what must hold at the end.
#include <algorithm>
#include <utility>

#include "tests/sim/explorer/world.hpp"

namespace troupe::core::sim {

namespace {

/// A function of the whole history, never the end token. It has few values, so that stop strings
/// match and prefixes are shared.
token_id token_after(const std::vector<token_id>& history, std::uint64_t seed) {
  auto h = 17 + static_cast<std::uint32_t>(seed);
  for (const auto t : history) h = h * 31 + static_cast<std::uint32_t>(t);
  return static_cast<token_id>(1 + (h >> 3) % 5);
}

std::uint64_t checksum_of(const std::vector<token_id>& block) {
  std::uint64_t h = 7;
  for (const auto t : block) h = h * 1'000'003 + static_cast<std::uint64_t>(t + 2);
  return h;
}

bool contains(const std::vector<lease_id>& holders, request_id id) {
  return std::any_of(holders.begin(), holders.end(), [id](lease_id x) { return x.request == id; });
}

}  // namespace

std::vector<token_id> world::content(block_id b) const {
  const auto size = scene_->limits.block_size;
  const auto first = memory_.begin() + static_cast<std::ptrdiff_t>(std::size_t{b} * size);
  return {first, first + size};
}

token_id world::token_of(request_id id) const {
  const auto& script = scene_->clients[index_of(id)];
  auto history = script.prompt;
  const auto& answer = owner(id).tokens;
  history.insert(history.end(), answer.begin(), answer.end());
  return token_after(history, script.seed);
}

// Before anything is computed.
void world::copy_blocks(const step_plan& plan) {
  const auto size = scene_->limits.block_size;
  const auto census = ledger_.census();
  for (const auto& item : plan.items) {
    for (std::size_t g = 0; g < item.copy_from.size(); ++g) {
      if (!contains(census.at(item.copy_from[g]).copied_by, item.request))
        throw broken("a step copies a block that is not kept for it");
      const auto seen = content(item.copy_from[g]);
      const auto to = item.blocks[item.start / size * scene_->limits.groups() + g];
      std::copy(seen.begin(), seen.end(),
                memory_.begin() + static_cast<std::ptrdiff_t>(std::size_t{to} * size));
    }
  }
}

void world::do_step(bool fails, std::optional<std::size_t> poisoned) {
  const auto plan = *std::exchange(plan_, std::nullopt);
  if (fails) {
    result_ = step_failed{plan.step, "device lost"};
    return;
  }
  copy_blocks(plan);
  step_done done{plan.step, {}, 1};
  const auto size = scene_->limits.block_size;
  const std::size_t groups = scene_->limits.groups();
  const auto census = ledger_.census();
  for (std::size_t i = 0; i < plan.items.size(); ++i) {
    const auto& item = plan.items[i];
    const auto block_of = [&](std::size_t at, std::size_t group) {
      const auto block = item.blocks[at / size * groups + group];
      if (block == no_block) throw broken("a layer looks at a block that was given back");
      return std::size_t{block};
    };
    const auto cell = [&](std::size_t at, std::size_t group) -> token_id& {
      return memory_[block_of(at, group) * size + at % size];
    };
    for (std::size_t k = 0; k < item.tokens.size() * groups; ++k) {
      const auto at = item.start + k / groups;
      const auto& holders = census[block_of(at, k % groups)].holders;
      if (holders.size() != 1 || holders[0].request != item.request)
        throw broken("a step writes a block that is not its own");
      cell(at, k % groups) = item.tokens[k / groups];
    }
    const auto& c = owner(item.request);
    auto history = scene_->clients[index_of(item.request)].prompt;
    history.insert(history.end(), c.tokens.begin(), c.tokens.end());
    for (std::size_t g = 0; g < groups; ++g) {
      const auto window = scene_->limits.windows[g];
      const auto first = window > 0 && item.start + 1 > window ? item.start + 1 - window : 0;
      for (std::size_t k = first; k < item.start + item.tokens.size(); ++k)
        if (k >= history.size() || cell(k, g) != history[k])
          throw broken("a step reads what is not its request's own history");
    }
    item_result r;
    r.request = item.request;
    r.bad_logits = poisoned == i;
    if (item.sample && !r.bad_logits) r.sampled = scored_token{token_of(item.request), -0.5f, {}};
    for (const auto& tail : item.tails)
      if (!r.bad_logits)
        r.tails.push_back({tail.request, scored_token{token_of(tail.request), -0.5f, {}}});
    done.items.push_back(std::move(r));
  }
  result_ = std::move(done);
}

void world::do_allocator() {
  allocated_ = true;
  const auto m = to_allocator_.take();
  std::visit(
      overloaded{
          [&](const reserve& x) {
            if (auto got = ledger_.reserve(x)) {
              from_allocator_.emplace_back(granted{x.lease, std::move(got->blocks), got->cached});
            } else {
              if (ledger_.held_by(x.lease) == 0 && leases_.contains(x.lease))
                leases_[x.lease][1] = 1;
              from_allocator_.emplace_back(denied{x.lease});
            }
          },
          [&](const fork_lease& x) {
            if (auto got = ledger_.fork(x)) {
              from_allocator_.emplace_back(
                  granted{x.child, std::move(got->blocks), got->cached, std::move(got->sources)});
            } else {
              if (leases_.contains(x.child)) leases_[x.child][1] = 1;
              from_allocator_.emplace_back(denied{x.child});
            }
          },
          [&](const drop_source& x) {
            const auto usable = ledger_.drop_source(x.lease);
            if (!usable) throw broken("a source is dropped that is not kept");
            if (*usable > 0) from_allocator_.emplace_back(released{x.lease, *usable, true});
          },
          [&](const trim& x) {
            const auto usable = ledger_.trim(x);
            if (!usable) throw broken("rows are trimmed that the lease does not hold");
            if (*usable > 0) from_allocator_.emplace_back(released{x.lease, *usable, true});
          },
          [&](const publish& x) {
            if (!ledger_.publish(x))
              throw broken("published blocks do not follow the ones published before");
          },
          [&](const release& x) {
            from_allocator_.emplace_back(released{x.lease, ledger_.release(x).usable});
            leases_.erase(x.lease);
          },
          [&](const audit& x) {
            if (ledger_.quarantine_unknown(x.live) > 0) throw broken("an audit finds a leak");
          },
      },
      m);
}

void world::do_mover(bool corrupt) {
  moved_ = named_ = true;
  const auto m = to_mover_.take();
  if (const auto* o = std::get_if<move_out>(&m)) {
    const auto start = moves_.begin_out(*o);
    if (!start.violation.empty()) throw broken("a move breaks its contract: " + start.violation);
    if (start.outcome != move_outcome::ok) return from_mover_.push_back({o->move, start.outcome});
    if (o->first == 0) host_[o->lease].assign(o->total, {});
    running_copy c{o->move, true, o->blocks, o->lease, o->first, {}};
    for (const auto b : o->blocks) c.seen.push_back(content(b));
    copies_.push_back(std::move(c));
  } else if (const auto* i = std::get_if<move_in>(&m)) {
    const auto start = moves_.begin_in(*i);
    if (!start.violation.empty()) throw broken("a move breaks its contract: " + start.violation);
    if (start.outcome != move_outcome::ok) return from_mover_.push_back({i->move, start.outcome});
    const auto& parked = host_.at(i->parked);
    for (std::size_t k = 0; k < i->blocks.size(); ++k)
      if (checksum_of(parked.at(i->first + k)) != start.checksums[k])
        throw broken("a parked copy has changed");
    if (corrupt) {
      moves_.end_in(i->move);
      return from_mover_.push_back({i->move, move_outcome::corrupt});
    }
    copies_.push_back({i->move, false, i->blocks, i->parked, i->first, {}});
  } else if (const auto* d = std::get_if<drop_parked>(&m)) {
    moves_.drop(d->parked);
    if (std::none_of(copies_.begin(), copies_.end(),
                     [&](const auto& c) { return c.parked == d->parked; }))
      host_.erase(d->parked);
    else
      throw broken("a copy is dropped while it moves");
  } else if (moves_.drop_unknown(std::get<audit>(m).parked) > 0) {
    throw broken("an audit finds a copy that no live request owns");
  }
}

void world::do_copy(std::size_t which, bool ok) {
  moved_ = true;
  const auto c = std::move(copies_[which]);
  copies_.erase(copies_.begin() + static_cast<std::ptrdiff_t>(which));
  const auto size = scene_->limits.block_size;
  if (c.out) {
    std::vector<std::uint64_t> sums;
    auto& parked = host_.at(c.parked);
    for (std::size_t i = 0; i < c.blocks.size(); ++i) {
      if (content(c.blocks[i]) != c.seen[i]) throw broken("a block is written while it is copied");
      parked.at(c.first + i) = c.seen[i];
      sums.push_back(checksum_of(c.seen[i]));
    }
    if (!moves_.end_out(c.move, ok, sums)) throw broken("a move ends that is not under way");
    if (!ok) host_.erase(c.parked);
  } else {
    const auto& parked = host_.at(c.parked);
    for (std::size_t i = 0; ok && i < c.blocks.size(); ++i) {
      const auto& from = parked.at(c.first + i);
      std::copy(from.begin(), from.end(),
                memory_.begin() + static_cast<std::ptrdiff_t>(std::size_t{c.blocks[i]} * size));
    }
    if (!moves_.end_in(c.move)) throw broken("a move ends that is not under way");
  }
  from_mover_.push_back({c.move, ok ? move_outcome::ok : move_outcome::failed});
}

// Free blocks are overwritten, so that a request which reads a block it was not given, or no longer
// holds, reads wrong tokens and is found out; and so that equal states have equal memory.
void world::poison_free() {
  const auto size = scene_->limits.block_size;
  const auto census = ledger_.census();
  for (block_id b = 0; b < census.size(); ++b) {
    if (census[b].where != block_ledger::place::free) continue;
    std::fill_n(memory_.begin() + static_cast<std::ptrdiff_t>(std::size_t{b} * size), size, -1);
  }
}

void world::check() {
  const auto readers = std::count_if(clients_.begin(), clients_.end(),
                                     [](const client& c) { return c.reading.has_place(); });
  if (places_.taken != readers || places_.taken > places_.total)
    throw broken("the places to read are not those that are taken");
  const auto sound = [](const std::string& wrong) {
    if (!wrong.empty()) throw broken(wrong);
  };
  if (std::exchange(scheduled_, false)) sound(machine_.check());
  const bool allocated = std::exchange(allocated_, false);
  if (allocated) {
    sound(ledger_.check());
    poison_free();
  }
  if (std::exchange(moved_, false)) sound(moves_.check());
  const bool something = plan_ || !copies_.empty() || !to_mover_.empty();
  if ((std::exchange(named_, false) || allocated) && something)
    check_steps_and_moves(ledger_.census());
}

// Until a step or a move is over, the blocks it names belong to its request.
void world::check_steps_and_moves(const std::vector<block_ledger::census_line>& census) const {
  if (plan_)
    for (const auto& item : plan_->items) {
      for (const auto b : item.blocks)
        if (b != no_block && !contains(census.at(b).holders, item.request))
          throw broken("a step in flight names a block that is not its request's");
      for (const auto b : item.copy_from)
        if (!contains(census.at(b).copied_by, item.request))
          throw broken("a step in flight copies a block that is not kept for it");
    }
  const auto held = [&](const std::vector<block_id>& blocks, request_id id, bool alone) {
    for (const auto b : blocks) {
      const auto& holders = census.at(b).holders;
      if (!contains(holders, id)) throw broken("a move names a block that is not its request's");
      if (alone && holders.size() > 1) throw broken("a move writes a shared block");
    }
  };
  for (const auto& c : copies_) held(c.blocks, c.parked.request, !c.out);
  for (const auto& m : to_mover_) {
    if (const auto* o = std::get_if<move_out>(&m)) held(o->blocks, o->lease.request, false);
    if (const auto* i = std::get_if<move_in>(&m)) held(i->blocks, i->parked.request, true);
  }
}

void world::require_whole() const {
  if (!machine_.idle()) throw broken("at rest the scheduler is not idle");
  const auto c = ledger_.counts();
  if (c.free + c.cached != c.total) throw broken("at rest not every block is free or cached");
  if (c.allocated_total != c.released_total) throw broken("allocated and released differ at rest");
  if (!leases_.empty()) throw broken("a lease is open at rest");
  if (!host_.empty() || moves_.counts().used > 0) throw broken("a parked copy is left at rest");
  if (places_.taken != 0) throw broken("a place to read is taken at rest");
  if (ending_ && stops_ != 1) throw broken("drain or stop was not followed by one stopped");
  for (const auto& x : clients_) {
    if (x.state == life::alive) throw broken("a session waits for ever");
    if (x.state == life::quit && x.finishes != 1) throw broken("a client never got its end");
    if (x.admissions > 0 && x.ends != 1) throw broken("an admitted request did not end once");
  }
}

}  // namespace troupe::core::sim
