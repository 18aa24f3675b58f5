#include "actors/core/step_plan.hpp"

#include <algorithm>

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
  // In a mixed step the rows are taken at their known price and the rest is the chunks' doing.
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
  auto tokens_left = budget.tokens - static_cast<std::uint32_t>(rows);
  const auto rows_ns = rows * cost.decode_row_ns();
  const auto budget_ns = budget.time_us * 1000;
  auto affordable = budget_ns > rows_ns ? (budget_ns - rows_ns) / cost.prefill_token_ns() : 0;
  for (const auto& c : candidates) {
    if (c.decoding) continue;
    if (tokens_left == 0) break;
    const auto chunk_min = std::min({c.tokens, std::max(budget.chunk_min, 1u), tokens_left});
    const auto wanted = std::min(c.tokens, tokens_left);
    const bool time_is_up = affordable < chunk_min;
    if (time_is_up && chosen.size() > rows)
      break;  // one sequence may exceed the time, and only so that one advances
    const auto chunk =
        time_is_up ? chunk_min
                   : static_cast<std::uint32_t>(std::min<std::uint64_t>(wanted, affordable));
    chosen.push_back({c.request, chunk});
    if (time_is_up) break;
    tokens_left -= chunk;
    affordable -= chunk;
  }
  return chosen;
}

}  // namespace troupe::core
