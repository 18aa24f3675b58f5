#include "actors/core/step_choice.hpp"

#include <algorithm>
#include <iterator>
#include <tuple>

namespace troupe::core {

namespace {

void follow(std::uint64_t& estimate, std::uint64_t sample) {
  sample = std::clamp(sample, estimate / 4, estimate * 2);
  estimate = std::clamp<std::uint64_t>((estimate + sample) / 2, 100, 10'000'000'000);
}

}  // namespace

void step_cost::learn(std::uint32_t decode_rows, std::uint32_t prefill_tokens,
                      std::uint64_t elapsed_us) {
  const auto elapsed_ns = std::min<std::uint64_t>(elapsed_us, 3'600'000'000) * 1000;
  if (prefill_tokens == 0) {
    if (decode_rows > 0) follow(decode_row_ns_, elapsed_ns / decode_rows);
    return;
  }
  // A mixed step has one time for both kinds: rows are charged at their known cost, chunks get the
  // rest.
  const auto rows_ns = decode_rows * decode_row_ns_;
  const auto chunks_ns = elapsed_ns > rows_ns ? elapsed_ns - rows_ns : elapsed_ns / 4;
  follow(prefill_token_ns_, chunks_ns / prefill_tokens);
}

std::vector<step_share> choose_step(const std::vector<step_candidate>& candidates,
                                    const step_budget& budget, const step_cost& cost) {
  std::vector<step_share> chosen;
  for (const auto& c : candidates)
    if (c.decoding && chosen.size() < budget.tokens) chosen.push_back({c.request, 1});

  const auto rows = chosen.size();
  const auto rows_ns = rows * cost.decode_row_ns();
  const auto budget_ns = budget.time_us * 1000;
  const auto affordable = budget_ns > rows_ns ? (budget_ns - rows_ns) / cost.prefill_token_ns() : 0;
  // Even when decode rows use up the time, prompts advance by a smallest chunk.
  auto room = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(std::max<std::uint64_t>({affordable, budget.chunk_min, 1}),
                              budget.tokens - static_cast<std::uint32_t>(rows)));

  std::vector<step_candidate> prefills;
  std::copy_if(candidates.begin(), candidates.end(), std::back_inserter(prefills),
               [](const auto& c) { return !c.decoding; });
  if (prefills.empty()) return chosen;
  const auto first = prefills.front();
  std::stable_sort(prefills.begin() + 1, prefills.end(), [](const auto& a, const auto& b) {
    return std::tie(a.priority, a.tokens) < std::tie(b.priority, b.tokens);
  });
  // When this step does not finish the first prompt, shorter ones share up to half of the room.
  std::uint64_t passing = 0;
  if (first.tokens > room)
    for (const auto& c : prefills)
      passing += c.priority == first.priority && c.tokens < first.tokens ? c.tokens : 0;
  auto most = room - static_cast<std::uint32_t>(std::min<std::uint64_t>(passing, room / 2));
  for (const auto& c : prefills) {
    if (room == 0) break;
    const auto chunk = std::min(c.tokens, most);
    chosen.push_back({c.request, chunk});
    most = room -= chunk;
  }
  return chosen;
}

}  // namespace troupe::core
