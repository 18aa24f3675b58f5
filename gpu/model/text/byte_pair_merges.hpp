// The merge table of a byte-level BPE vocabulary and the merging of one piece, in as many calls as
// the caller likes. Immutable once filled. n log n in the piece's length, with constant stack; the
// scratch buffers are the caller's.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "config/sampling_params.hpp"

namespace troupe::gpu {

class byte_pair_merges {
 public:
  /// Room for `count` merges.
  explicit byte_pair_merges(std::size_t count = 0);

  /// The pair becomes `merged`; lower ranks go first. A pair that is already there keeps its first
  /// rank.
  void add(token_id left, token_id right, token_id merged, std::uint32_t rank);

  struct scratch {
    struct symbol {
      token_id id;
      std::uint32_t previous;
      std::uint32_t next;
      std::uint32_t rank;  ///< of the merge with the next symbol; none when there is no such merge
    };
    std::vector<symbol> symbols;
    std::vector<std::uint64_t> queue;  ///< rank << 32 | position, a min-heap
  };

  static constexpr std::uint32_t none = 0xFFFFFFFFu;

  /// A new piece, of at most `length` symbols.
  void begin(scratch& work, std::size_t length) const;
  /// Its next symbol, a single-byte token.
  void push(scratch& work, token_id symbol) const;
  /// Takes up to `entries` from the queue of merges; answers how many it did not need, so more than
  /// 0 says that all is merged.
  std::size_t merge(scratch& work, std::size_t entries) const;

 private:
  struct slot {
    std::uint64_t pair = ~0ull;
    token_id merged = -1;
    std::uint32_t rank = none;
  };
  /// The slot of the pair, or the empty slot where it would go.
  std::size_t probe(std::uint64_t pair) const;
  std::uint32_t rank_of(token_id left, token_id right) const;
  void requeue(scratch& work, std::uint32_t at) const;

  std::vector<slot> slots_;  ///< open addressing; the size is a power of two, at most half full
};

}  // namespace troupe::gpu
