// From chains of tokens to KV blocks: a tree whose nodes are full, computed rows of blocks (one of
// each layer group) and whose edges are the tokens in them, as SGLang's radix cache, but in whole
// blocks. Tokens are compared in full, never by a hash alone: a collision would answer one client
// with another's prompt. Owned by block_ledger, which knows who uses a block; this knows only what
// is in it. Copyable and hashable.
#pragma once
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "actors/core/events.hpp"
#include "actors/core/state_hash.hpp"

namespace troupe::core {

/// A node of the tree; counted up, never reused. 0 is the start of every scope.
using node_id = std::uint64_t;

class prefix_index {
 public:
  struct hit {
    std::vector<block_id> blocks;  ///< the longest chain that starts the tokens, row by row
    std::uint32_t rows = 0;
    node_id last = 0;  ///< where it ends
    bool operator==(const hit&) const = default;
  };
  /// Compares at most the first `most` rows of `tokens`, `block_size` tokens each.
  hit find(const cache_scope&, std::span<const token_id> tokens, std::uint32_t block_size,
           std::uint32_t most) const;

  /// The blocks of `row`, which are not in the tree, hold `tokens` after `parent`. Returns their
  /// node: when another row holds the same tokens already, that row stays the one that is found. 0:
  /// the parent is no longer in the tree, nothing was added.
  node_id add(const cache_scope&, node_id parent, std::span<const token_id> tokens,
              std::span<const block_id> row);

  bool holds(block_id block) const { return by_block_.contains(block); }
  /// The block's row; empty: it is not in the tree.
  std::span<const block_id> row_of(block_id) const;
  /// The block is in the tree and another row follows its own.
  bool followed(block_id) const;
  /// Takes the block's row and all that follow it out of the tree; returns their blocks, its own
  /// row first.
  std::vector<block_id> remove(block_id block);

  std::size_t size() const { return nodes_.size(); }
  /// The broken invariant as text; empty: none.
  std::string check() const;
  bool operator==(const prefix_index&) const = default;
  void add_to(state_hash&) const;

 private:
  struct edge {
    node_id parent = 0;  // a node, or the root of a scope
    std::vector<token_id> tokens;
    auto operator<=>(const edge&) const = default;
  };
  struct node {
    edge from;
    std::vector<block_id> row;  // one block of each layer group
    bool operator==(const node&) const = default;
  };

  void forget(node_id);
  bool has_children(node_id) const;
  void add_children(state_hash&, node_id parent) const;

  std::map<cache_scope, node_id> roots_;  // only those with children
  std::map<node_id, node> nodes_;
  std::map<edge, node_id> edges_;  // ordered by parent, so the children of a node are one range
  std::map<block_id, node_id> by_block_;
  node_id last_ = 0;
};

}  // namespace troupe::core
