// The fake device of the world: a cell for each token of every block, and answers that depend on
// the whole history, so that a request which reads another's block answers wrong.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/actors/core/scheduler_world.hpp"

namespace troupe::core::testing {

namespace {

void must(bool ok, const char* rule, request_id id) {
  if (!ok) FAIL(rule << " request " << id.value);
}

}  // namespace

token_id scheduler_world::token_after(const std::vector<token_id>& history,
                                      std::uint64_t seed) const {
  std::uint64_t h = 1469598103934665603ull + seed;
  for (const auto t : history) h = (h ^ static_cast<std::uint64_t>(t)) * 1099511628211ull;
  h ^= h >> 31;
  if (end_token_every > 0 && h % end_token_every == 0) return 0;
  return static_cast<token_id>(1 + (h >> 8) % 998);
}

step_done scheduler_world::execute() {
  step_done done;
  done.step = plan_->step;
  done.elapsed_us = static_cast<std::uint64_t>(step_us);
  const auto bs = limits_.block_size;
  const auto groups = limits_.groups();
  const auto cell = [&](const plan_item& item, std::size_t position,
                        std::uint32_t group) -> token_id& {
    const auto block = item.blocks[position / bs * groups + group];
    must(block != no_block, "what a layer looks at was not given back:", item.request);
    return memory_[block * bs + position % bs];
  };
  copy_blocks();
  for (const auto& item : plan_->items) {
    computed_tokens += item.tokens.size();
    for (std::uint32_t g = 0; g < groups; ++g)
      for (std::size_t i = 0; i < item.tokens.size(); ++i)
        cell(item, item.start + i, g) = item.tokens[i];
    item_result result;
    result.request = item.request;
    result.bad_logits = poisoned.contains(item.request);
    for (const auto t : item.score_targets)
      if (t >= 0) result.scores.push_back({t, -1.0f, {}});
    if (item.sample && !result.bad_logits) {
      // Every group has what its window reaches; one of them reaches to the beginning.
      const auto end = item.start + item.tokens.size();
      const auto whole = static_cast<std::uint32_t>(
          std::find(limits_.windows.begin(), limits_.windows.end(), 0u) - limits_.windows.begin());
      std::vector<token_id> history;
      for (std::size_t i = 0; i < end; ++i) history.push_back(cell(item, i, whole));
      for (std::uint32_t g = 0; g < groups; ++g) {
        const auto window = limits_.windows[g];
        for (auto i = window > 0 && item.start + 1 > window ? item.start + 1 - window : 0; i < end;
             ++i)
          must(cell(item, i, g) == history[i], "every group holds the same tokens:", item.request);
      }
      const auto draw = [&](request_id id) {
        auto token = token_after(history, seeds_.at(id));
        const auto& no = item.suppressed;
        while (std::find(no.begin(), no.end(), token) != no.end()) ++token;
        return scored_token{token, -0.5f, {}};
      };
      result.sampled = draw(item.request);
      for (const auto& tail : item.tails)
        result.tails.push_back({tail.request, draw(tail.request)});
    }
    done.items.push_back(std::move(result));
  }
  return done;
}

}  // namespace troupe::core::testing
