#include "actors/core/blocks/block_ledger.hpp"

#include <algorithm>
#include <utility>

#include "actors/core/state_hash.hpp"

namespace troupe::core {

block_ledger::block_ledger(ledger_options options)
    : options_(options),
      pools_(options.groups),
      users_(options.total_blocks, 0),
      idle_since_(options.total_blocks, 0) {
  for (std::uint32_t b = options_.total_blocks; b > 0; --b)
    pools_.at(group_of(b - 1)).free.push_back(b - 1);  // each group's first goes out first
}

template <class Count>
std::size_t block_ledger::sum(Count count) const {
  std::size_t out = 0;
  for (const auto& pool : pools_) out += count(pool);
  return out;
}

// ---- blocks out

// The last token is always computed, for its logits.
prefix_index::hit block_ledger::look_up(const prefix_query& query, std::uint32_t count) const {
  if (query.tokens.empty()) return {};
  const auto whole = static_cast<std::uint32_t>((query.tokens.size() - 1) / options_.block_size);
  return index_.find(query.scope, query.tokens, options_.block_size, std::min(whole, count));
}

std::optional<block_ledger::grant> block_ledger::reserve(const core::reserve& ask) {
  const bool looks = ask.prefix && options_.prefix_caching && !leases_.contains(ask.lease);
  auto hit = looks ? look_up(*ask.prefix, ask.count) : prefix_index::hit{};
  const auto new_rows = ask.count - hit.rows;
  std::vector<std::uint64_t> needed(options_.groups, std::uint64_t{new_rows} + ask.keep_free);
  for (const auto b : hit.blocks)
    if (users_[b] == 0) ++needed[group_of(b)];  // cached, and no longer for others
  for (std::uint32_t g = 0; g < options_.groups; ++g)
    if (needed[g] > pools_[g].usable()) return std::nullopt;

  grant out{std::move(hit.blocks), hit.rows};
  for (const auto b : out.blocks) add_user(b);
  for (std::uint32_t i = 0; i < new_rows; ++i) take_row(out.blocks);
  if (ask.count > 0) {
    auto& held = leases_[ask.lease];
    if (looks) {
      held.scope = ask.prefix->scope;
      held.found = held.published = hit.rows;
      held.tail = hit.last;
    }
    held.blocks.insert(held.blocks.end(), out.blocks.begin(), out.blocks.end());
  }
  allocated_total_ += out.blocks.size();
  return out;
}

std::optional<block_ledger::grant> block_ledger::fork(const core::fork_lease& ask) {
  const auto from = leases_.find(ask.parent);
  if (from == leases_.end() || leases_.contains(ask.child)) return std::nullopt;
  const auto& parent = from->second;
  if (ask.shared + (ask.copies ? 1u : 0u) > rows_of(parent)) return std::nullopt;
  std::vector<block_id> sources;
  if (ask.copies) {
    const auto partial = row(parent, ask.shared);
    sources.assign(partial.begin(), partial.end());
    if (std::count(sources.begin(), sources.end(), no_block) > 0) return std::nullopt;
  }
  for (const auto& pool : pools_)
    if (std::uint64_t{1} + ask.keep_free > pool.usable()) return std::nullopt;

  holding child;
  // What the parent brought into the cache the child brought too: they are answers to one client.
  // A parent that is further than what they share has left the place where the child would go on.
  const bool beyond = parent.published > ask.shared;
  if (!beyond) child.scope = parent.scope;
  child.published = std::min(parent.published, ask.shared);
  child.found = std::min(parent.found, child.published);
  child.tail = beyond ? 0 : parent.tail;
  child.blocks.assign(parent.blocks.begin(),
                      parent.blocks.begin() + std::ptrdiff_t{ask.shared} * options_.groups);
  child.trimmed =
      static_cast<std::uint32_t>(std::count(child.blocks.begin(), child.blocks.end(), no_block));
  child.sources = std::move(sources);
  for (const auto b : child.blocks) add_user(b);
  for (const auto b : child.sources) add_user(b);
  take_row(child.blocks);
  allocated_total_ += child.held();  // what is to be copied is kept, not given
  grant out{child.blocks, child.published, child.sources};
  leases_.emplace(ask.child, std::move(child));
  return out;
}

std::optional<std::uint32_t> block_ledger::drop_source(lease_id lease) {
  const auto found = leases_.find(lease);
  if (found == leases_.end() || found->second.sources.empty()) return std::nullopt;
  return let_go(std::exchange(found->second.sources, {}), false);
}

void block_ledger::add_user(block_id b) {
  if (b == no_block || users_[b]++ > 0) return;
  no_longer_idle(b);  // of a block that was free this changes nothing
  ++leased_;
}

// Of each group the block freed last, or the one that the cache has not used for the longest time.
void block_ledger::take_row(std::vector<block_id>& to) {
  const auto idle = [](const group_pool& x) { return x.idle.size(); };
  for (auto& pool : pools_) {
    if (pool.free.empty()) {
      const auto before = sum(idle);
      uncache(pool.idle.begin()->second);
      evicted_total_ += before - sum(idle);
    }
    const auto b = pool.free.back();
    pool.free.pop_back();
    add_user(b);
    to.push_back(b);
  }
}

std::uint32_t block_ledger::let_go(std::span<const block_id> blocks, bool forget) {
  const auto unused = [this](block_id b) { return b != no_block && users_[b] == 0; };
  for (const auto b : blocks)
    if (b != no_block && --users_[b] == 0) --leased_;
  const auto first = std::find_if(blocks.begin(), blocks.end(), unused);
  if (first == blocks.end()) return 0;
  if (forget && !index_.followed(*first)) {
    const auto row = index_.row_of(*first);
    if (std::all_of(row.begin(), row.end(), unused)) uncache(*first);
  }
  std::uint32_t count = 0;
  for (const auto b : blocks) {
    if (!unused(b)) continue;
    ++count;
    if (index_.holds(b))
      make_idle(b);
    else
      pools_[group_of(b)].free.push_back(b);
  }
  return count;
}

// ---- the prefix cache

bool block_ledger::publish(const core::publish& m) {
  const auto found = leases_.find(m.lease);
  if (found == leases_.end()) return false;
  auto& held = found->second;
  const auto rows = m.tokens.size() / options_.block_size;
  if (m.first != held.published || m.tokens.size() % options_.block_size != 0 ||
      m.first + rows > rows_of(held))
    return false;
  for (std::size_t i = 0; i < rows; ++i, ++held.published) {
    if (!held.scope) continue;
    const auto tokens = std::span(m.tokens).subspan(i * options_.block_size, options_.block_size);
    const auto blocks = row(held, held.published);
    const bool whole = std::find(blocks.begin(), blocks.end(), no_block) == blocks.end();
    held.tail = whole ? index_.add(*held.scope, held.tail, tokens, blocks) : 0;
    if (held.tail == 0)
      held.scope.reset();  // the chain before it has left the cache, so it could never be found
  }
  return true;
}

std::optional<std::uint32_t> block_ledger::trim(const core::trim& m) {
  const auto found = leases_.find(m.lease);
  if (found == leases_.end()) return std::nullopt;
  auto& held = found->second;
  if (m.group >= options_.groups || m.rows >= rows_of(held)) return std::nullopt;
  std::uint32_t usable = 0;
  // The last first, as in release(). The rows stay in the cache, of which others may have the rest.
  for (auto r = m.rows; r-- > 0;) {
    auto& entry = held.blocks[std::size_t{r} * options_.groups + m.group];
    if (entry == no_block) continue;
    const auto b = std::exchange(entry, no_block);
    usable += let_go({&b, 1}, false);
    ++held.trimmed;
    ++released_total_;
  }
  return usable;
}

// ---- blocks back

block_ledger::give_back block_ledger::release(const core::release& m) {
  const auto found = leases_.find(m.lease);
  if (found == leases_.end()) {
    ++empty_releases_;
    return {};
  }
  const auto held = std::move(found->second);
  leases_.erase(found);
  give_back out{held.held(), let_go(held.sources, false)};
  // The end of a chain first, so that it is evicted before the blocks it follows: a chain without
  // its beginning could never be found. Only what this lease alone brought in is forgotten: blocks
  // that it found, or that others' blocks follow, stay.
  for (auto i = rows_of(held); i-- > 0;)
    out.usable += let_go(row(held, i), m.forget && i >= held.found);
  released_total_ += out.held;
  return out;
}

std::uint32_t block_ledger::quarantine_unknown(const std::vector<lease_id>& live) {
  std::uint32_t count = 0;
  for (auto it = leases_.begin(); it != leases_.end();) {
    if (std::binary_search(live.begin(), live.end(), it->first)) {
      ++it;
      continue;
    }
    auto blocks = it->second.blocks;
    std::erase(blocks, no_block);
    quarantined_total_ += blocks.size();
    blocks.insert(blocks.end(), it->second.sources.begin(), it->second.sources.end());
    for (const auto b : blocks) {
      if (users_[b] == 1 && index_.holds(b))
        uncache(b);  // before its user count drops, so that it is not put on the free list
      if (--users_[b] > 0) continue;
      --leased_;
      quarantined_.push_back(b);
      ++count;
    }
    it = leases_.erase(it);
  }
  return count;
}

void block_ledger::make_idle(block_id b) {
  idle_since_[b] = ++uses_;
  pools_[group_of(b)].idle.emplace(uses_, b);
}

void block_ledger::no_longer_idle(block_id b) {
  pools_[group_of(b)].idle.erase(std::exchange(idle_since_[b], 0));
}

void block_ledger::uncache(block_id first) {
  for (const auto b : index_.remove(first)) {
    if (idle_since_[b] == 0) continue;  // leased, or about to be put in its place by let_go()
    no_longer_idle(b);
    pools_[group_of(b)].free.push_back(b);
  }
}

// ---- questions

block_counts block_ledger::counts() const {
  block_counts c;
  c.total = options_.total_blocks;
  c.free = static_cast<std::uint32_t>(sum([](const group_pool& x) { return x.free.size(); }));
  c.leased = leased_;
  c.cached = static_cast<std::uint32_t>(sum([](const group_pool& x) { return x.idle.size(); }));
  c.quarantined = static_cast<std::uint32_t>(quarantined_.size());
  c.allocated_total = allocated_total_;
  c.released_total = released_total_;
  c.empty_releases = empty_releases_;
  c.evicted_total = evicted_total_;
  return c;
}

bool block_ledger::conserved() const {
  return sum([](const group_pool& x) { return x.usable(); }) + leased_ + quarantined_.size() ==
         options_.total_blocks;
}

std::vector<block_ledger::census_line> block_ledger::census() const {
  std::vector<census_line> out(options_.total_blocks);
  for (const auto& pool : pools_)
    for (const auto& [since, b] : pool.idle) out[b].where = place::cached;
  for (const auto b : quarantined_) out[b].where = place::quarantined;
  for (const auto& [lease, held] : leases_)
    for (const auto b : held.blocks) {
      if (b == no_block) continue;
      out[b].where = place::leased;
      out[b].holders.push_back(lease);
    }
  for (const auto& [lease, held] : leases_)
    for (const auto b : held.sources) {
      out[b].where = place::leased;
      out[b].copied_by.push_back(lease);
    }
  return out;
}

std::uint32_t block_ledger::held_by(lease_id lease) const {
  const auto found = leases_.find(lease);
  return found == leases_.end() ? 0 : found->second.held();
}

std::vector<lease_id> block_ledger::unknown(const std::vector<lease_id>& live) const {
  std::vector<lease_id> out;
  for (const auto& [lease, held] : leases_)
    if (!std::binary_search(live.begin(), live.end(), lease)) out.push_back(lease);
  return out;
}

std::string block_ledger::check() const {
  std::vector<std::uint32_t> holders(options_.total_blocks, 0);
  std::uint64_t held_now = 0;
  for (const auto& [lease, held] : leases_) {
    if (held.blocks.empty()) return "a lease without blocks is kept";
    if (held.blocks.size() % options_.groups != 0) return "a lease holds whole rows";
    if (held.published > rows_of(held) || held.found > held.published)
      return "a lease publishes blocks it holds";
    std::uint32_t trimmed = 0;
    for (std::size_t i = 0; i < held.blocks.size(); ++i) {
      const auto b = held.blocks[i];
      if (b == no_block) {
        ++trimmed;
        continue;
      }
      if (b >= options_.total_blocks)
        return "block " + std::to_string(b) + " in a lease is outside the pool";
      if (group_of(b) != i % options_.groups) return "a lease's row has a block of each group";
      ++holders[b];
    }
    if (trimmed != held.trimmed) return "a lease knows how many of its blocks were trimmed";
    held_now += held.held();
    for (const auto b : held.sources) {
      if (b >= options_.total_blocks) return "a block to copy is outside the pool";
      ++holders[b];
    }
  }
  if (holders != users_) return "a block's count of users is the number of leases that hold it";

  std::vector<bool> seen(options_.total_blocks, false);
  std::string broken;
  const auto visit = [&](block_id b, const char* where, bool cached) {
    const auto name = "block " + std::to_string(b) + " in " + where;
    if (!broken.empty()) return;
    if (b >= options_.total_blocks) {
      broken = name + " is outside the pool";
    } else if (seen[b] || holders[b] > 0) {
      broken = name + " has two places";
    } else if (index_.holds(b) != cached) {
      broken = name + (cached ? " can't be found" : " can be found");
    } else {
      seen[b] = true;
    }
  };
  for (std::uint32_t g = 0; g < options_.groups; ++g) {
    for (const auto b : pools_[g].free) visit(b, "free", false);
    for (const auto& [since, b] : pools_[g].idle) {
      visit(b, "the cache", true);
      if (broken.empty() && idle_since_[b] != since) broken = "a cached block knows since when";
    }
    const auto strange = [&](block_id b) { return group_of(b) != g; };
    if (std::any_of(pools_[g].free.begin(), pools_[g].free.end(), strange))
      return "a group gives its own blocks";
  }
  for (const auto b : quarantined_) visit(b, "quarantine", false);
  if (!broken.empty()) return broken;
  if (broken = index_.check(); !broken.empty()) return broken;
  if (static_cast<std::size_t>(
          std::count_if(holders.begin(), holders.end(), [](auto n) { return n > 0; })) != leased_)
    return "the count of leased blocks is that of blocks with holders";
  if (!conserved()) return "free + leased + cached + quarantined != total";
  if (allocated_total_ != released_total_ + held_now + quarantined_total_)
    return "allocated != released + leased + quarantined";
  return {};
}

// Free blocks are equal: which of them comes next changes only names.
void block_ledger::add_to(state_hash& h) const {
  h.add(options_.total_blocks).add(options_.block_size).add(options_.prefix_caching);
  h.add(options_.groups);
  index_.add_to(h);
  h.add(leases_.size());
  for (const auto& [lease, held] : leases_) {
    h.add(lease).add_blocks(held.blocks).add(held.found).add(held.published).add_place(held.tail);
    h.add_blocks(held.sources);
    h.add(held.scope.has_value());
    if (held.scope && held.scope->salt) h.add(std::string_view(*held.scope->salt));
  }
  for (const auto& pool : pools_) {
    h.add(pool.idle.size());
    for (const auto& [since, b] : pool.idle) h.add_block(b);
    h.add(pool.free.size());
  }
  h.add_blocks(quarantined_);
}

}  // namespace troupe::core
