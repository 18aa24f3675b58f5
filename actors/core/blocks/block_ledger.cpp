#include "actors/core/blocks/block_ledger.hpp"

#include <algorithm>
#include <utility>

#include "actors/core/state_hash.hpp"

namespace troupe::core {

block_ledger::block_ledger(ledger_options options)
    : options_(options), users_(options.total_blocks, 0), idle_since_(options.total_blocks, 0) {
  free_.reserve(options_.total_blocks);
  for (std::uint32_t b = options_.total_blocks; b > 0; --b)
    free_.push_back(b - 1);  // block 0 goes out first
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
  const auto hits = static_cast<std::uint32_t>(hit.blocks.size());
  const auto from_idle = static_cast<std::uint64_t>(std::count_if(
      hit.blocks.begin(), hit.blocks.end(), [this](block_id b) { return users_[b] == 0; }));
  const auto usable = free_.size() + idle_.size() - from_idle;
  if (std::uint64_t{ask.count} - hits + ask.keep_free > usable) return std::nullopt;

  grant out{std::move(hit.blocks), hits};
  for (const auto b : out.blocks) {
    if (users_[b]++ > 0) continue;
    no_longer_idle(b);
    ++leased_;
  }
  while (out.blocks.size() < ask.count) {
    const auto b = take_free();
    users_[b] = 1;
    ++leased_;
    out.blocks.push_back(b);
  }
  if (ask.count > 0) {
    auto& held = leases_[ask.lease];
    if (looks) {
      held.scope = ask.prefix->scope;
      held.found = held.published = hits;
      held.tail = hit.last;
    }
    held.blocks.insert(held.blocks.end(), out.blocks.begin(), out.blocks.end());
  }
  allocated_total_ += ask.count;
  return out;
}

std::optional<block_ledger::grant> block_ledger::fork(const core::fork_lease& ask) {
  const auto from = leases_.find(ask.parent);
  if (from == leases_.end() || leases_.contains(ask.child)) return std::nullopt;
  const auto& parent = from->second;
  if (ask.shared + (ask.copies ? 1u : 0u) > parent.blocks.size()) return std::nullopt;
  if (std::uint64_t{1} + ask.keep_free > free_.size() + idle_.size()) return std::nullopt;

  holding child;
  // What the parent brought into the cache the child brought too: they are answers to one client.
  // A parent that is further than what they share has left the place where the child would go on.
  const bool beyond = parent.published > ask.shared;
  if (!beyond) child.scope = parent.scope;
  child.published = std::min(parent.published, ask.shared);
  child.found = std::min(parent.found, child.published);
  child.tail = beyond ? 0 : parent.tail;
  child.blocks.assign(parent.blocks.begin(), parent.blocks.begin() + ask.shared);
  if (ask.copies) child.source = parent.blocks[ask.shared];
  for (const auto b : child.blocks) ++users_[b];
  if (child.source) ++users_[*child.source];
  const auto own = take_free();
  users_[own] = 1;
  ++leased_;
  child.blocks.push_back(own);
  allocated_total_ += child.blocks.size();  // the block to copy is kept, not given
  grant out{child.blocks, child.published, child.source};
  leases_.emplace(ask.child, std::move(child));
  return out;
}

std::optional<std::uint32_t> block_ledger::drop_source(lease_id lease) {
  const auto found = leases_.find(lease);
  if (found == leases_.end() || !found->second.source) return std::nullopt;
  const auto b = *std::exchange(found->second.source, std::nullopt);
  return let_go(b, false) ? 1 : 0;
}

bool block_ledger::let_go(block_id b, bool forget) {
  if (--users_[b] > 0) return false;
  --leased_;
  if (forget && !index_.followed(b)) index_.remove(b);
  if (index_.holds(b))
    make_idle(b);
  else
    free_.push_back(b);
  return true;
}

block_id block_ledger::take_free() {
  if (free_.empty()) evict_one();
  const auto b = free_.back();
  free_.pop_back();
  return b;
}

void block_ledger::evict_one() {
  const auto before = idle_.size();
  uncache(idle_.begin()->second);
  evicted_total_ += before - idle_.size();
}

// ---- the prefix cache

bool block_ledger::publish(const core::publish& m) {
  const auto found = leases_.find(m.lease);
  if (found == leases_.end()) return false;
  auto& held = found->second;
  const auto blocks = m.tokens.size() / options_.block_size;
  if (m.first != held.published || m.tokens.size() % options_.block_size != 0 ||
      m.first + blocks > held.blocks.size())
    return false;
  for (std::size_t i = 0; i < blocks; ++i, ++held.published) {
    if (!held.scope) continue;
    const auto tokens = std::span(m.tokens).subspan(i * options_.block_size, options_.block_size);
    held.tail = index_.add(*held.scope, held.tail, tokens, held.blocks[held.published]);
    if (held.tail == 0)
      held.scope.reset();  // the chain before it has left the cache, so it could never be found
  }
  return true;
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
  give_back out{static_cast<std::uint32_t>(held.blocks.size()), 0};
  if (held.source && let_go(*held.source, false)) ++out.usable;
  // The end of a chain first, so that it is evicted before the blocks it follows: a chain without
  // its beginning could never be found. Only what this lease alone brought in is forgotten: blocks
  // that it found, or that others' blocks follow, stay.
  for (auto i = held.blocks.size(); i-- > 0;)
    if (let_go(held.blocks[i], m.forget && i >= held.found)) ++out.usable;
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
    quarantined_total_ += blocks.size();
    if (it->second.source) blocks.push_back(*it->second.source);
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
  idle_.emplace(uses_, b);
}

void block_ledger::no_longer_idle(block_id b) {
  idle_.erase(std::exchange(idle_since_[b], 0));
}

void block_ledger::uncache(block_id first) {
  for (const auto b : index_.remove(first)) {
    if (users_[b] > 0) continue;
    no_longer_idle(b);
    free_.push_back(b);
  }
}

// ---- questions

block_counts block_ledger::counts() const {
  block_counts c;
  c.total = options_.total_blocks;
  c.free = static_cast<std::uint32_t>(free_.size());
  c.leased = leased_;
  c.cached = static_cast<std::uint32_t>(idle_.size());
  c.quarantined = static_cast<std::uint32_t>(quarantined_.size());
  c.allocated_total = allocated_total_;
  c.released_total = released_total_;
  c.empty_releases = empty_releases_;
  c.evicted_total = evicted_total_;
  return c;
}

bool block_ledger::conserved() const {
  return free_.size() + leased_ + idle_.size() + quarantined_.size() == options_.total_blocks;
}

std::vector<block_ledger::census_line> block_ledger::census() const {
  std::vector<census_line> out(options_.total_blocks);
  for (const auto& [since, b] : idle_) out[b].where = place::cached;
  for (const auto b : quarantined_) out[b].where = place::quarantined;
  for (const auto& [lease, held] : leases_)
    for (const auto b : held.blocks) {
      out[b].where = place::leased;
      out[b].holders.push_back(lease);
    }
  for (const auto& [lease, held] : leases_)
    if (held.source) {
      out[*held.source].where = place::leased;
      out[*held.source].copied_by.push_back(lease);
    }
  return out;
}

std::uint32_t block_ledger::held_by(lease_id lease) const {
  const auto found = leases_.find(lease);
  return found == leases_.end() ? 0 : static_cast<std::uint32_t>(found->second.blocks.size());
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
    if (held.published > held.blocks.size() || held.found > held.published)
      return "a lease publishes blocks it holds";
    for (const auto b : held.blocks) {
      if (b >= options_.total_blocks)
        return "block " + std::to_string(b) + " in a lease is outside the pool";
      ++holders[b];
    }
    held_now += held.blocks.size();
    if (held.source) {
      if (*held.source >= options_.total_blocks) return "a block to copy is outside the pool";
      ++holders[*held.source];
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
  for (const auto b : free_) visit(b, "free", false);
  for (const auto& [since, b] : idle_) {
    visit(b, "the cache", true);
    if (broken.empty() && idle_since_[b] != since) broken = "a cached block knows since when";
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
  index_.add_to(h);
  h.add(leases_.size());
  for (const auto& [lease, held] : leases_) {
    h.add(lease).add_blocks(held.blocks).add(held.found).add(held.published).add_place(held.tail);
    h.add(held.source.has_value());
    if (held.source) h.add_block(*held.source);
    h.add(held.scope.has_value());
    if (held.scope && held.scope->salt) h.add(std::string_view(*held.scope->salt));
  }
  h.add(idle_.size());
  for (const auto& [since, b] : idle_) h.add_block(b);
  h.add(free_.size()).add_blocks(quarantined_);
}

}  // namespace troupe::core
