#include "actors/core/blocks/prefix_index.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace troupe::core {

prefix_index::hit prefix_index::find(const cache_scope& scope, std::span<const token_id> tokens,
                                     std::uint32_t block_size, std::uint32_t most) const {
  hit out;
  const auto root = roots_.find(scope);
  if (root == roots_.end()) return out;
  edge step{root->second, {}};
  for (std::uint32_t i = 0; i < most && std::size_t{i + 1} * block_size <= tokens.size(); ++i) {
    const auto block = tokens.subspan(std::size_t{i} * block_size, block_size);
    step.tokens.assign(block.begin(), block.end());  // the edge is the tokens: no hash to collide
    const auto next = edges_.find(step);
    if (next == edges_.end()) break;
    out.last = step.parent = next->second;
    const auto& row = nodes_.at(out.last).row;
    out.blocks.insert(out.blocks.end(), row.begin(), row.end());
    ++out.rows;
  }
  return out;
}

node_id prefix_index::add(const cache_scope& scope, node_id parent,
                          std::span<const token_id> tokens, std::span<const block_id> row) {
  if (parent != 0 && !nodes_.contains(parent)) return 0;
  if (parent == 0) {
    auto& root = roots_[scope];
    if (root == 0) root = ++last_;
    parent = root;
  }
  edge from{parent, {tokens.begin(), tokens.end()}};
  const auto known = edges_.find(from);
  // Two requests computed the same tokens at once. The first row stays the one that is found; the
  // second is used by its own lease only and is freed with it.
  if (known != edges_.end()) return known->second;
  const auto id = ++last_;
  edges_.emplace(from, id);
  nodes_.emplace(id, node{std::move(from), {row.begin(), row.end()}});
  for (const auto block : row) by_block_.emplace(block, id);
  return id;
}

std::vector<block_id> prefix_index::remove(block_id block) {
  const auto at = by_block_.find(block);
  if (at == by_block_.end()) return {};
  // Breadth first, so that every parent comes before its children in the result.
  std::vector<node_id> out{at->second};
  for (std::size_t i = 0; i < out.size(); ++i)
    for (auto child = edges_.lower_bound(edge{out[i], {}});
         child != edges_.end() && child->first.parent == out[i]; ++child)
      out.push_back(child->second);
  std::vector<block_id> blocks;
  blocks.reserve(out.size() * nodes_.at(out.front()).row.size());
  for (const auto id : out) {
    const auto& row = nodes_.at(id).row;
    blocks.insert(blocks.end(), row.begin(), row.end());
  }
  for (const auto id : out) forget(id);
  return blocks;
}

std::span<const block_id> prefix_index::row_of(block_id block) const {
  const auto at = by_block_.find(block);
  if (at == by_block_.end()) return {};
  return nodes_.at(at->second).row;
}

bool prefix_index::followed(block_id block) const {
  const auto at = by_block_.find(block);
  return at != by_block_.end() && has_children(at->second);
}

bool prefix_index::has_children(node_id id) const {
  const auto child = edges_.lower_bound(edge{id, {}});
  return child != edges_.end() && child->first.parent == id;
}

void prefix_index::forget(node_id id) {
  const auto at = nodes_.find(id);
  const auto parent = at->second.from.parent;
  for (const auto block : at->second.row) by_block_.erase(block);
  edges_.erase(at->second.from);
  nodes_.erase(at);
  // A scope without blocks is forgotten, or random salts would make the index grow without a limit.
  if (nodes_.contains(parent) || has_children(parent)) return;
  std::erase_if(roots_, [parent](const auto& root) { return root.second == parent; });
}

std::string prefix_index::check() const {
  std::size_t blocks = 0;
  for (const auto& [id, place] : nodes_) blocks += place.row.size();
  if (edges_.size() != nodes_.size() || by_block_.size() != blocks)
    return "every cached block has one place in the tree";
  std::set<node_id> roots;
  for (const auto& [scope, root] : roots_) roots.insert(root);
  if (roots.size() != roots_.size()) return "every scope has a root of its own";
  node_id parent = 0;  // of the last edge: edges are ordered by parent
  for (const auto& [from, id] : edges_) {
    const auto place = nodes_.find(id);
    if (place == nodes_.end() || place->second.from != from)
      return "a cached block is found by its own tokens";
    if (std::exchange(parent, from.parent) != from.parent && roots.erase(parent) == 0 &&
        !nodes_.contains(parent))
      return "a cached block can be reached";
  }
  for (const auto& [block, id] : by_block_) {
    const auto place = nodes_.find(id);
    if (place == nodes_.end() ||
        std::count(place->second.row.begin(), place->second.row.end(), block) != 1)
      return "a cached block knows its place";
  }
  return roots.empty() ? "" : "a scope without blocks is forgotten";
}

// Scope by scope, each chain from its start, so that the hash does not depend on the order of
// adding.
void prefix_index::add_to(state_hash& h) const {
  h.add(nodes_.size());
  for (const auto& [scope, root] : roots_) {
    h.add(scope.salt.has_value()).add(std::string_view(scope.salt ? *scope.salt : std::string()));
    add_children(h, root);
  }
}

void prefix_index::add_children(state_hash& h, node_id parent) const {
  for (auto child = edges_.lower_bound(edge{parent, {}});
       child != edges_.end() && child->first.parent == parent; ++child) {
    h.add_place(child->second).add(child->first.tokens).add_blocks(nodes_.at(child->second).row);
    add_children(h, child->second);
  }
  h.add(-1);
}

}  // namespace troupe::core
