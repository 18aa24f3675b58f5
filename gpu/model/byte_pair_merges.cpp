#include "gpu/model/byte_pair_merges.hpp"

#include <algorithm>
#include <bit>
#include <functional>

namespace troupe::gpu {
namespace {

std::uint64_t pair_of(token_id left, token_id right) {
  return std::uint64_t{static_cast<std::uint32_t>(left)} << 32 | static_cast<std::uint32_t>(right);
}

}  // namespace

byte_pair_merges::byte_pair_merges(std::size_t count) : slots_(std::bit_ceil(2 * count + 2)) {}

std::size_t byte_pair_merges::probe(std::uint64_t pair) const {
  const auto mask = slots_.size() - 1;
  auto at = static_cast<std::size_t>((pair * 0x9E3779B97F4A7C15ull) >> 20) & mask;
  while (slots_[at].pair != pair && slots_[at].rank != none) at = (at + 1) & mask;
  return at;
}

void byte_pair_merges::add(token_id left, token_id right, token_id merged, std::uint32_t rank) {
  auto& place = slots_[probe(pair_of(left, right))];
  if (place.rank == none) place = {pair_of(left, right), merged, rank};
}

std::uint32_t byte_pair_merges::rank_of(token_id left, token_id right) const {
  return slots_[probe(pair_of(left, right))].rank;
}

void byte_pair_merges::apply(const std::vector<token_id>& input, scratch& work,
                             std::vector<token_id>& out) const {
  if (input.size() < 2) {
    out.insert(out.end(), input.begin(), input.end());
    return;
  }
  auto& symbols = work.symbols;
  auto& queue = work.queue;
  symbols.clear();
  queue.clear();
  const auto count = static_cast<std::uint32_t>(input.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    const bool last = i + 1 == count;
    const auto rank = last ? none : rank_of(input[i], input[i + 1]);
    symbols.push_back({input[i], i == 0 ? none : i - 1, last ? none : i + 1, rank});
    if (rank != none) queue.push_back(std::uint64_t{rank} << 32 | i);
  }
  std::make_heap(queue.begin(), queue.end(), std::greater<>());

  // Refreshes the merge of the symbol at `at` with its successor; what was queued for it before
  // goes stale.
  const auto requeue = [&](std::uint32_t at) {
    auto& symbol = symbols[at];
    symbol.rank = symbol.next == none ? none : rank_of(symbol.id, symbols[symbol.next].id);
    if (symbol.rank == none) return;
    queue.push_back(std::uint64_t{symbol.rank} << 32 | at);
    std::push_heap(queue.begin(), queue.end(), std::greater<>());
  };
  while (!queue.empty()) {
    const auto best = queue.front();
    std::pop_heap(queue.begin(), queue.end(), std::greater<>());
    queue.pop_back();
    const auto at = static_cast<std::uint32_t>(best);
    auto& symbol = symbols[at];
    if (symbol.rank != static_cast<std::uint32_t>(best >> 32)) continue;  // stale
    auto& gone = symbols[symbol.next];
    symbol.id = slots_[probe(pair_of(symbol.id, gone.id))].merged;
    gone.rank = none;
    symbol.next = gone.next;
    if (symbol.next != none) symbols[symbol.next].previous = at;
    requeue(at);
    if (symbol.previous != none) requeue(symbol.previous);
  }
  for (std::uint32_t at = 0; at != none; at = symbols[at].next) out.push_back(symbols[at].id);
}

}  // namespace troupe::gpu
