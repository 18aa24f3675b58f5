// The block ledger once more, too plain to be wrong: a map from whole token chain to block, a list
// of idle blocks in the order they came, holders as sets. Also keeps what each block contains,
// which the real one never sees. Test only; each operation answers what went wrong in words, or
// nothing.
#pragma once
#include <algorithm>
#include <list>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "actors/core/blocks/block_ledger.hpp"

namespace troupe::core {

struct naive_ledger {
  struct chain {
    cache_scope scope;
    std::vector<token_id> tokens;  // from the very beginning
    auto operator<=>(const chain&) const = default;
    bool starts(const chain& other) const {
      return scope == other.scope && tokens.size() <= other.tokens.size() &&
             std::equal(tokens.begin(), tokens.end(), other.tokens.begin());
    }
  };
  struct holder {
    std::vector<block_id> blocks;
    std::optional<cache_scope> scope;
    std::size_t found = 0;
    std::vector<token_id> tokens;  // computed and told
    bool lost = false;             // the chain it follows was taken out of the cache
    std::size_t shared = 0;        // leading blocks that a fork shares: computed
    std::optional<block_id> source;
  };

  explicit naive_ledger(ledger_options o)
      : options(o), content(o.total_blocks), holders(o.total_blocks), keepers(o.total_blocks) {
    for (block_id b = 0; b < o.total_blocks; ++b) free.insert(b);
  }

  ledger_options options;
  std::set<block_id> free, quarantined;
  std::list<block_id> idle;
  std::map<chain, block_id> cache;
  std::map<lease_id, holder> leases;
  std::vector<std::optional<chain>> content;  // none: whatever somebody left there
  std::vector<std::set<lease_id>> holders;
  std::vector<std::set<lease_id>> keepers;  // forks that are to copy it
  block_counts sums;

  chain chain_of(const cache_scope& scope, std::span<const token_id> tokens,
                 std::size_t blocks) const {
    return {scope,
            {tokens.begin(),
             tokens.begin() + static_cast<std::ptrdiff_t>(blocks * options.block_size)}};
  }
  std::size_t users(block_id b) const { return holders[b].size() + keepers[b].size(); }
  const chain* cached_as(block_id b) const {
    for (const auto& [c, held] : cache)
      if (held == b) return &c;
    return nullptr;
  }
  void take_out(const chain& gone) {
    for (auto it = cache.begin(); it != cache.end();) {
      if (!gone.starts(it->first)) {
        ++it;
        continue;
      }
      for (auto& [id, l] : leases)
        if (l.scope && !l.tokens.empty() && chain{*l.scope, l.tokens} == it->first) l.lost = true;
      if (users(it->second) == 0 && std::erase(idle, it->second) > 0) free.insert(it->second);
      it = cache.erase(it);
    }
  }

  std::string reserve(const core::reserve& ask, const std::optional<block_ledger::grant>& got) {
    const bool looks = ask.prefix && options.prefix_caching && !leases.contains(ask.lease);
    std::vector<block_id> found;
    for (std::size_t n = 1;
         looks && n <= ask.count && n * options.block_size < ask.prefix->tokens.size(); ++n) {
      const auto at = cache.find(chain_of(ask.prefix->scope, ask.prefix->tokens, n));
      if (at == cache.end()) break;
      found.push_back(at->second);
    }
    const auto idle_found =
        std::count_if(found.begin(), found.end(), [&](block_id b) { return users(b) == 0; });
    const auto usable = free.size() + idle.size() - static_cast<std::size_t>(idle_found);
    if (std::uint64_t{ask.count} - found.size() + ask.keep_free > usable)
      return got ? "granted too much" : "";
    if (!got) return "denied what there is";
    if (got->blocks.size() != ask.count || got->cached != found.size())
      return "granted another number";
    if (!std::equal(found.begin(), found.end(), got->blocks.begin())) return "found other blocks";
    for (std::size_t n = 0; n < found.size(); ++n)
      if (content[found[n]] != chain_of(ask.prefix->scope, ask.prefix->tokens, n + 1))
        return "found other contents";
    sums.allocated_total += ask.count;
    if (ask.count == 0) return "";
    auto& l = leases[ask.lease];
    if (looks) {
      l.scope = ask.prefix->scope;
      l.found = found.size();
      l.tokens = chain_of(*l.scope, ask.prefix->tokens, l.found).tokens;
    }
    for (std::size_t n = 0; n < got->blocks.size(); ++n) {
      const auto b = got->blocks[n];
      if (n < found.size()) {
        idle.remove(b);
      } else {
        if (free.empty()) {
          const auto before = idle.size();
          take_out(chain(*cached_as(idle.front())));
          sums.evicted_total += before - idle.size();
        }
        if (free.erase(b) == 0) return "granted a block that is not free";
      }
      holders[b].insert(ask.lease);
      l.blocks.push_back(b);
    }
    return "";
  }

  std::string fork(const fork_lease& ask, const std::optional<block_ledger::grant>& got) {
    const auto it = leases.find(ask.parent);
    const bool right = it != leases.end() && !leases.contains(ask.child) &&
                       ask.shared + (ask.copies ? 1 : 0) <= it->second.blocks.size();
    if (!right || 1 + std::size_t{ask.keep_free} > free.size() + idle.size())
      return got ? "forked what can't be" : "";
    if (!got) return "refused to fork";
    auto& parent = it->second;
    const auto published = parent.tokens.size() / options.block_size;
    const auto known = std::min<std::size_t>(published, ask.shared);
    if (got->blocks.size() != ask.shared + 1 || got->cached != known)
      return "forked another number";
    if (!std::equal(got->blocks.begin(), got->blocks.end() - 1, parent.blocks.begin()))
      return "a fork shares other blocks";
    if (got->source != (ask.copies ? std::optional(parent.blocks[ask.shared]) : std::nullopt))
      return "a fork keeps another block";
    holder child = parent;
    if (published > ask.shared) child.scope.reset();
    child.blocks = got->blocks;
    child.found = std::min(parent.found, known);
    child.tokens.resize(known * options.block_size);
    child.shared = ask.shared;
    child.source = got->source;
    parent.shared = std::max<std::size_t>(parent.shared, ask.shared);
    if (free.empty()) {
      const auto before = idle.size();
      take_out(chain(*cached_as(idle.front())));
      sums.evicted_total += before - idle.size();
      child.lost = parent.lost;
    }
    if (free.erase(got->blocks.back()) == 0) return "a fork was granted a block that is not free";
    for (const auto b : got->blocks) holders[b].insert(ask.child);
    if (child.source) keepers[*child.source].insert(ask.child);
    sums.allocated_total += got->blocks.size();
    leases.emplace(ask.child, std::move(child));
    return "";
  }

  std::string drop_source(lease_id id, const std::optional<std::uint32_t>& got) {
    const auto it = leases.find(id);
    if (it == leases.end() || !it->second.source) return got ? "dropped what is not kept" : "";
    if (!got) return "refused to drop a source";
    const auto b = *std::exchange(it->second.source, std::nullopt);
    keepers[b].erase(id);
    const bool back = users(b) == 0;
    if (back && cached_as(b))
      idle.push_back(b);
    else if (back)
      free.insert(b);
    return *got == (back ? 1u : 0u) ? "" : "dropped another number";
  }

  /// A lease computes something into a block of its own that nobody was told of yet.
  std::string scribble(lease_id id, std::size_t nth) {
    const auto b = leases.at(id).blocks[nth];
    if (holders[b].size() != 1) return "wrote into a shared block";
    if (cached_as(b)) return "wrote into a block others can find";
    content[b].reset();
    return "";
  }

  std::string publish(const core::publish& m, bool answer) {
    const auto it = leases.find(m.lease);
    const auto size = options.block_size;
    const bool right = it != leases.end() && m.first * size == it->second.tokens.size() &&
                       m.tokens.size() % size == 0 &&
                       m.first + m.tokens.size() / size <= it->second.blocks.size();
    if (answer != right) return right ? "refused to publish" : "published nonsense";
    if (!right) return "";
    auto& l = it->second;
    for (std::size_t n = m.first; n < m.first + m.tokens.size() / size; ++n) {
      if (n >= l.shared)
        if (auto wrong = scribble(m.lease, n); !wrong.empty()) return wrong;
      const auto begin = m.tokens.begin() + static_cast<std::ptrdiff_t>((n - m.first) * size);
      l.tokens.insert(l.tokens.end(), begin, begin + size);
      const chain whole{l.scope.value_or(cache_scope{}), l.tokens};
      content[l.blocks[n]] = whole;
      if (l.scope && !l.lost) cache.emplace(whole, l.blocks[n]);
    }
    return "";
  }

  std::string release(const core::release& m, const block_ledger::give_back& got) {
    const auto it = leases.find(m.lease);
    if (it == leases.end()) {
      ++sums.empty_releases;
      return got == block_ledger::give_back{} ? "" : "an unknown lease gave something back";
    }
    const auto l = it->second;
    leases.erase(it);
    block_ledger::give_back all{static_cast<std::uint32_t>(l.blocks.size()), 0};
    if (l.source) {
      const auto b = *l.source;
      keepers[b].erase(m.lease);
      if (users(b) == 0) {
        ++all.usable;
        if (cached_as(b))
          idle.push_back(b);
        else
          free.insert(b);
      }
    }
    for (auto n = l.blocks.size(); n-- > 0;) {
      const auto b = l.blocks[n];
      holders[b].erase(m.lease);
      if (users(b) > 0) continue;
      ++all.usable;
      const auto* cached = cached_as(b);
      if (cached && m.forget && n >= l.found &&
          std::none_of(cache.begin(), cache.end(),
                       [&](const auto& c) { return c.second != b && cached->starts(c.first); })) {
        take_out(chain(*cached));
        cached = nullptr;
      }
      if (cached)
        idle.push_back(b);
      else
        free.insert(b);
    }
    sums.released_total += l.blocks.size();
    return got == all ? "" : "gave back another number";
  }

  std::string quarantine_unknown(const std::vector<lease_id>& live, std::uint32_t got) {
    std::uint32_t lost = 0;
    for (auto it = leases.begin(); it != leases.end();) {
      if (std::find(live.begin(), live.end(), it->first) != live.end()) {
        ++it;
        continue;
      }
      const auto [id, l] = *it;
      it = leases.erase(it);
      auto blocks = l.blocks;
      if (l.source) blocks.push_back(*l.source);
      for (const auto b : blocks) {
        if (users(b) == 1)
          if (const auto* cached = cached_as(b)) take_out(chain(*cached));
        holders[b].erase(id);
        keepers[b].erase(id);
        if (users(b) > 0) continue;
        quarantined.insert(b);
        ++lost;
      }
    }
    return got == lost ? "" : "quarantined another number";
  }

  /// Empty when the real one is in the same state, as far as it can be seen from outside.
  std::string compare(const block_ledger& real) {
    if (auto broken = real.check(); !broken.empty()) return "check: " + broken;
    if (!real.conserved()) return "not conserved";
    sums.total = options.total_blocks;
    sums.free = static_cast<std::uint32_t>(free.size());
    sums.cached = static_cast<std::uint32_t>(idle.size());
    sums.quarantined = static_cast<std::uint32_t>(quarantined.size());
    sums.leased = static_cast<std::uint32_t>(
        std::count_if(holders.begin(), holders.end(), [](const auto& h) { return !h.empty(); }));
    for (block_id b = 0; b < options.total_blocks; ++b)
      sums.leased += holders[b].empty() && !keepers[b].empty() ? 1 : 0;
    if (real.counts() != sums) return "other counts";
    const auto census = real.census();
    const std::set<block_id> cached(idle.begin(), idle.end());
    for (block_id b = 0; b < options.total_blocks; ++b) {
      using place = block_ledger::place;
      const auto where = users(b) > 0              ? place::leased
                         : free.contains(b)        ? place::free
                         : quarantined.contains(b) ? place::quarantined
                                                   : place::cached;
      if (where == place::cached && !cached.contains(b)) return "the model lost a block";
      if (census[b].where != where) return "block " + std::to_string(b) + " is elsewhere";
      if (census[b].holders != std::vector<lease_id>(holders[b].begin(), holders[b].end()))
        return "block " + std::to_string(b) + " has other holders";
      if (census[b].copied_by != std::vector<lease_id>(keepers[b].begin(), keepers[b].end()))
        return "block " + std::to_string(b) + " is kept for other copies";
    }
    return "";
  }
};

}  // namespace troupe::core
