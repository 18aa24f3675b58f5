// The block ledger once more, too plain to be wrong: a map from whole token chain to row of blocks,
// a list of idle blocks of each layer group in the order they came, holders as sets. Also keeps
// what each block contains, which the real one never sees. Test only; each operation answers what
// went wrong in words, or nothing.
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
    std::vector<block_id> blocks;  // row by row; no_block: trimmed
    std::optional<cache_scope> scope;
    std::size_t found = 0;
    std::vector<token_id> tokens;  // computed and told
    bool lost = false;             // the chain it follows was taken out of the cache
    std::size_t shared = 0;        // leading rows that a fork shares: computed
    std::vector<block_id> sources;
  };

  explicit naive_ledger(ledger_options o)
      : options(o),
        free(o.groups),
        idle(o.groups),
        content(o.total_blocks),
        holders(o.total_blocks),
        keepers(o.total_blocks) {
    for (block_id b = 0; b < o.total_blocks; ++b) free[group_of(b)].insert(b);
  }

  ledger_options options;
  std::vector<std::set<block_id>> free;
  std::set<block_id> quarantined;
  std::vector<std::list<block_id>> idle;
  std::map<chain, std::vector<block_id>> cache;
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
  std::size_t group_of(block_id b) const { return b / (options.total_blocks / options.groups); }
  std::size_t rows_of(const holder& l) const { return l.blocks.size() / options.groups; }
  std::vector<block_id> row_of(const holder& l, std::size_t n) const {
    const auto first = l.blocks.begin() + static_cast<std::ptrdiff_t>(n * options.groups);
    return {first, first + options.groups};
  }
  static bool whole(const std::vector<block_id>& row) {
    return std::find(row.begin(), row.end(), no_block) == row.end();
  }
  std::size_t idle_blocks() const {
    std::size_t sum = 0;
    for (const auto& one : idle) sum += one.size();
    return sum;
  }
  // Nobody uses the block any more.
  void put_back(block_id b) {
    if (cached_as(b))
      idle[group_of(b)].push_back(b);
    else
      free[group_of(b)].insert(b);
  }
  // For one more row: of each group a block that is free, or that the cache gives up.
  void evict_for_a_row() {
    for (std::size_t g = 0; g < options.groups; ++g) {
      if (!free[g].empty()) continue;
      const auto before = idle_blocks();
      take_out(chain(*cached_as(idle[g].front())));
      sums.evicted_total += before - idle_blocks();
    }
  }
  const chain* cached_as(block_id b) const {
    for (const auto& [c, row] : cache)
      if (std::find(row.begin(), row.end(), b) != row.end()) return &c;
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
      for (const auto b : it->second)
        if (users(b) == 0 && std::erase(idle[group_of(b)], b) > 0) free[group_of(b)].insert(b);
      it = cache.erase(it);
    }
  }

  std::string reserve(const core::reserve& ask, const std::optional<block_ledger::grant>& got) {
    const bool looks = ask.prefix && options.prefix_caching && !leases.contains(ask.lease);
    std::vector<block_id> found;  // row by row
    for (std::size_t n = 1;
         looks && n <= ask.count && n * options.block_size < ask.prefix->tokens.size(); ++n) {
      const auto at = cache.find(chain_of(ask.prefix->scope, ask.prefix->tokens, n));
      if (at == cache.end()) break;
      found.insert(found.end(), at->second.begin(), at->second.end());
    }
    const auto rows = found.size() / options.groups;
    bool enough = true;
    for (std::size_t g = 0; g < options.groups; ++g) {
      const auto idle_found = std::count_if(found.begin(), found.end(), [&](block_id b) {
        return group_of(b) == g && users(b) == 0;
      });
      const auto usable = free[g].size() + idle[g].size() - static_cast<std::size_t>(idle_found);
      enough = enough && std::uint64_t{ask.count} - rows + ask.keep_free <= usable;
    }
    if (!enough) return got ? "granted too much" : "";
    if (!got) return "denied what there is";
    if (got->blocks.size() != std::size_t{ask.count} * options.groups || got->cached != rows)
      return "granted another number";
    if (!std::equal(found.begin(), found.end(), got->blocks.begin())) return "found other blocks";
    for (std::size_t n = 0; n < found.size(); ++n)
      if (content[found[n]] !=
          chain_of(ask.prefix->scope, ask.prefix->tokens, n / options.groups + 1))
        return "found other contents";
    sums.allocated_total += got->blocks.size();
    if (ask.count == 0) return "";
    auto& l = leases[ask.lease];
    if (looks) {
      l.scope = ask.prefix->scope;
      l.found = rows;
      l.tokens = chain_of(*l.scope, ask.prefix->tokens, l.found).tokens;
    }
    for (std::size_t n = 0; n < got->blocks.size(); ++n) {
      const auto b = got->blocks[n];
      if (n < found.size()) {
        idle[group_of(b)].remove(b);
      } else {
        if (group_of(b) != n % options.groups) return "granted a block of another group";
        if (n % options.groups == 0) evict_for_a_row();
        if (free[group_of(b)].erase(b) == 0) return "granted a block that is not free";
      }
      holders[b].insert(ask.lease);
      l.blocks.push_back(b);
    }
    return "";
  }

  std::string fork(const fork_lease& ask, const std::optional<block_ledger::grant>& got) {
    const auto it = leases.find(ask.parent);
    const bool right = it != leases.end() && !leases.contains(ask.child) &&
                       ask.shared + (ask.copies ? 1 : 0) <= rows_of(it->second) &&
                       (!ask.copies || whole(row_of(it->second, ask.shared)));
    bool enough = true;
    for (std::size_t g = 0; g < options.groups; ++g)
      enough = enough && 1 + std::size_t{ask.keep_free} <= free[g].size() + idle[g].size();
    if (!right || !enough) return got ? "forked what can't be" : "";
    if (!got) return "refused to fork";
    auto& parent = it->second;
    const auto published = parent.tokens.size() / options.block_size;
    const auto known = std::min<std::size_t>(published, ask.shared);
    const auto own = got->blocks.end() - options.groups;
    if (got->blocks.size() != (ask.shared + 1) * options.groups || got->cached != known)
      return "forked another number";
    if (!std::equal(got->blocks.begin(), own, parent.blocks.begin()))
      return "a fork shares other blocks";
    if (got->sources != (ask.copies ? row_of(parent, ask.shared) : std::vector<block_id>{}))
      return "a fork keeps another block";
    holder child = parent;
    if (published > ask.shared) child.scope.reset();
    child.blocks = got->blocks;
    child.found = std::min(parent.found, known);
    child.tokens.resize(known * options.block_size);
    child.shared = ask.shared;
    child.sources = got->sources;
    parent.shared = std::max<std::size_t>(parent.shared, ask.shared);
    for (const auto b : child.sources) keepers[b].insert(ask.child);
    evict_for_a_row();
    child.lost = parent.lost;
    for (auto b = own; b != got->blocks.end(); ++b)
      if (free[static_cast<std::size_t>(b - own)].erase(*b) == 0)
        return "a fork was granted a block that is not free";
    for (const auto b : got->blocks) {
      if (b == no_block) continue;
      holders[b].insert(ask.child);
      ++sums.allocated_total;
    }
    leases.emplace(ask.child, std::move(child));
    return "";
  }

  std::string drop_source(lease_id id, const std::optional<std::uint32_t>& got) {
    const auto it = leases.find(id);
    if (it == leases.end() || it->second.sources.empty())
      return got ? "dropped what is not kept" : "";
    if (!got) return "refused to drop a source";
    return *got == let_go_sources(it->first, it->second) ? "" : "dropped another number";
  }
  std::uint32_t let_go_sources(lease_id id, holder& l) {
    std::uint32_t back = 0;
    for (const auto b : std::exchange(l.sources, {})) {
      keepers[b].erase(id);
      if (users(b) > 0) continue;
      put_back(b);
      ++back;
    }
    return back;
  }

  std::string trim(const core::trim& m, const std::optional<std::uint32_t>& got) {
    const auto it = leases.find(m.lease);
    if (it == leases.end() || m.group >= options.groups || m.rows >= rows_of(it->second))
      return got ? "trimmed what is not there" : "";
    if (!got) return "refused to trim";
    std::uint32_t back = 0;
    for (auto n = std::size_t{m.rows}; n-- > 0;) {
      auto& place = it->second.blocks[n * options.groups + m.group];
      if (place == no_block) continue;
      const auto b = std::exchange(place, no_block);
      holders[b].erase(m.lease);
      ++sums.released_total;
      if (users(b) > 0) continue;
      put_back(b);
      ++back;
    }
    return *got == back ? "" : "trimmed another number";
  }

  /// A lease computes something into a block of its own that nobody was told of yet.
  std::string scribble(lease_id id, std::size_t nth) {
    for (const auto b : row_of(leases.at(id), nth)) {
      if (b == no_block) continue;
      if (holders[b].size() != 1) return "wrote into a shared block";
      if (cached_as(b)) return "wrote into a block others can find";
      content[b].reset();
    }
    return "";
  }

  std::string publish(const core::publish& m, bool answer) {
    const auto it = leases.find(m.lease);
    const auto size = options.block_size;
    const bool right = it != leases.end() && m.first * size == it->second.tokens.size() &&
                       m.tokens.size() % size == 0 &&
                       m.first + m.tokens.size() / size <= rows_of(it->second);
    if (answer != right) return right ? "refused to publish" : "published nonsense";
    if (!right) return "";
    auto& l = it->second;
    for (std::size_t n = m.first; n < m.first + m.tokens.size() / size; ++n) {
      if (n >= l.shared)
        if (auto wrong = scribble(m.lease, n); !wrong.empty()) return wrong;
      const auto begin = m.tokens.begin() + static_cast<std::ptrdiff_t>((n - m.first) * size);
      l.tokens.insert(l.tokens.end(), begin, begin + size);
      const chain text{l.scope.value_or(cache_scope{}), l.tokens};
      const auto row = row_of(l, n);
      for (const auto b : row)
        if (b != no_block) content[b] = text;
      if (!whole(row)) l.lost = true;
      if (l.scope && !l.lost) cache.emplace(text, row);
    }
    return "";
  }

  std::string release(const core::release& m, const block_ledger::give_back& got) {
    const auto it = leases.find(m.lease);
    if (it == leases.end()) {
      ++sums.empty_releases;
      return got == block_ledger::give_back{} ? "" : "an unknown lease gave something back";
    }
    auto l = it->second;
    leases.erase(it);
    block_ledger::give_back all{0, let_go_sources(m.lease, l)};
    for (auto n = rows_of(l); n-- > 0;) {
      auto row = row_of(l, n);
      std::erase(row, no_block);
      all.held += static_cast<std::uint32_t>(row.size());
      for (const auto b : row) holders[b].erase(m.lease);
      std::erase_if(row, [&](block_id b) { return users(b) > 0; });
      all.usable += static_cast<std::uint32_t>(row.size());
      if (m.forget && n >= l.found && !row.empty()) forget(row.front());
      for (const auto b : row) put_back(b);
    }
    sums.released_total += all.held;
    return got == all ? "" : "gave back another number";
  }

  // The row leaves the cache, unless another one follows it or somebody uses a block of it.
  void forget(block_id b) {
    const auto* cached = cached_as(b);
    if (!cached) return;
    const auto& row = cache.at(*cached);
    if (std::any_of(row.begin(), row.end(), [&](block_id x) { return users(x) > 0; })) return;
    for (const auto& [other, blocks] : cache)
      if (other != *cached && cached->starts(other)) return;
    take_out(chain(*cached));
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
      blocks.insert(blocks.end(), l.sources.begin(), l.sources.end());
      std::erase(blocks, no_block);
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
    sums.free = 0;
    for (const auto& one : free) sums.free += static_cast<std::uint32_t>(one.size());
    sums.cached = static_cast<std::uint32_t>(idle_blocks());
    sums.quarantined = static_cast<std::uint32_t>(quarantined.size());
    sums.leased = static_cast<std::uint32_t>(
        std::count_if(holders.begin(), holders.end(), [](const auto& h) { return !h.empty(); }));
    for (block_id b = 0; b < options.total_blocks; ++b)
      sums.leased += holders[b].empty() && !keepers[b].empty() ? 1 : 0;
    if (real.counts() != sums) return "other counts";
    const auto census = real.census();
    std::set<block_id> cached;
    for (const auto& one : idle) cached.insert(one.begin(), one.end());
    for (block_id b = 0; b < options.total_blocks; ++b) {
      using place = block_ledger::place;
      const auto where = users(b) > 0                    ? place::leased
                         : free[group_of(b)].contains(b) ? place::free
                         : quarantined.contains(b)       ? place::quarantined
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
