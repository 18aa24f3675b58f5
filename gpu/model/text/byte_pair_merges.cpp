#include "gpu/model/text/byte_pair_merges.hpp"

#include <algorithm>
#include <bit>
#include <functional>

#include "config/bytes/mix64.hpp"

namespace troupe::gpu {
namespace {

std::uint64_t pair_of(token_id left, token_id right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

}  // namespace

byte_pair_merges::byte_pair_merges(std::size_t count) : slots_(std::bit_ceil(2 * count + 2)) {}

std::size_t byte_pair_merges::probe(std::uint64_t pair) const {
  // Multiplicative hashing with linear probing (Knuth, volume 3, 6.4); at least half of the slots
  // are empty, so a chain is short.
  const auto mask = slots_.size() - 1;
  auto at = static_cast<std::size_t>((pair * golden_step) >> 20) & mask;
  while (slots_[at].pair != pair && slots_[at].rank != none) at = (at + 1) & mask;
  return at;
}

void byte_pair_merges::add(token_id left, token_id right, token_id merged, std::uint32_t rank) {
  auto& place = slots_[probe(pair_of(left, right))];
  // The first of two equal merges has the better rank, as in the file.
  if (place.rank == none) place = {pair_of(left, right), merged, rank};
}

std::uint32_t byte_pair_merges::rank_of(token_id left, token_id right) const {
  return slots_[probe(pair_of(left, right))].rank;
}

// The room is asked for at once: a long piece that grows would be copied again and again. A queue
// has one entry for each symbol, and a merge puts two for the one it takes.
void byte_pair_merges::begin(scratch& work, std::size_t length) const {
  work.symbols.clear();
  work.queue.clear();
  work.symbols.reserve(length);
  work.queue.reserve(2 * length);
}

void byte_pair_merges::push(scratch& work, token_id id) const {
  auto& symbols = work.symbols;
  const auto at = static_cast<std::uint32_t>(symbols.size());
  symbols.push_back({id, at == 0 ? none : at - 1, none, none});
  if (at == 0) return;
  symbols[at - 1].next = at;
  requeue(work, at - 1);
}

/// Refreshes the merge of the symbol at `at` with its successor; what was queued for it before goes
/// stale.
void byte_pair_merges::requeue(scratch& work, std::uint32_t at) const {
  auto& symbol = work.symbols[at];
  symbol.rank = symbol.next == none ? none : rank_of(symbol.id, work.symbols[symbol.next].id);
  if (symbol.rank == none) return;
  work.queue.push_back(std::uint64_t{symbol.rank} << 32 | at);
  std::push_heap(work.queue.begin(), work.queue.end(), std::greater<>());
}

std::size_t byte_pair_merges::merge(scratch& work, std::size_t entries) const {
  auto& symbols = work.symbols;
  auto& queue = work.queue;
  for (; entries > 0 && !queue.empty(); --entries) {
    // The lowest rank, and of equal ranks the leftmost: the order in which GPT-2 merges.
    const auto best = queue.front();
    std::pop_heap(queue.begin(), queue.end(), std::greater<>());
    queue.pop_back();
    const auto at = static_cast<std::uint32_t>(best);
    auto& symbol = symbols[at];
    if (symbol.rank != static_cast<std::uint32_t>(best >> 32)) continue;  // stale
    auto& gone = symbols[symbol.next];
    symbol.id = slots_[probe(pair_of(symbol.id, gone.id))].merged;
    // Entries that name either of the two are stale now; they are left in the queue, since taking
    // them out would cost more than meeting them.
    gone.rank = none;
    symbol.next = gone.next;
    if (symbol.next != none) symbols[symbol.next].previous = at;
    requeue(work, at);
    if (symbol.previous != none) requeue(work, symbol.previous);
  }
  return entries;
}

}  // namespace troupe::gpu
