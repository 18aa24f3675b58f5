#include "actors/core/step_choice.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

using namespace troupe::core;

namespace {

step_candidate decode(std::uint64_t id) {
  return {request_id{id}, true, 1, 0};
}
step_candidate prefill(std::uint64_t id, std::uint32_t tokens, std::int32_t priority = 0) {
  return {request_id{id}, false, tokens, priority};
}
std::vector<std::pair<std::uint64_t, std::uint32_t>> plain(const std::vector<step_share>& shares) {
  std::vector<std::pair<std::uint64_t, std::uint32_t>> out;
  for (const auto& s : shares) out.emplace_back(s.request.value, s.tokens);
  return out;
}
using shares = std::vector<std::pair<std::uint64_t, std::uint32_t>>;

}  // namespace

TEST_CASE("step_plan: decode rows come first, then prefill within the token budget", "[core]") {
  const step_budget budget{100, 1'000'000, 16};
  const auto s = choose_step({prefill(1, 60), decode(2), prefill(3, 60), decode(4), prefill(5, 10)},
                             budget, {});
  CHECK(plain(s) == shares{{2, 1}, {4, 1}, {1, 60}, {5, 10}, {3, 28}});
}

TEST_CASE("step_plan: time shrinks the chunk, and its end leaves one smallest chunk", "[core]") {
  step_cost cost;  // 1 ms a token
  CHECK(plain(choose_step({prefill(1, 600)}, {512, 100'000, 16}, cost)) == shares{{1, 100}});
  CHECK(plain(choose_step({prefill(1, 600), prefill(2, 600)}, {512, 100, 16}, cost)) ==
        shares{{1, 16}});
  CHECK(plain(choose_step({prefill(1, 5), prefill(2, 600)}, {512, 100, 16}, cost)) ==
        shares{{1, 5}, {2, 11}});
  CHECK(plain(choose_step({prefill(1, 90), prefill(2, 600)}, {512, 100'000, 16}, cost)) ==
        shares{{1, 90}, {2, 10}});
}

TEST_CASE("step_plan: short prompts pass a long one in half of the room, the shortest first",
          "[core]") {
  step_cost cost;
  const step_budget budget{512, 100'000, 16};  // room for 100 tokens
  const auto plan = [&](const std::vector<step_candidate>& c) {
    return plain(choose_step(c, budget, cost));
  };
  CHECK(plan({prefill(1, 8000), prefill(2, 3)}) == shares{{1, 97}, {2, 3}});
  CHECK(plan({prefill(1, 8000), prefill(2, 400), prefill(3, 20), prefill(4, 20)}) ==
        shares{{1, 50}, {3, 20}, {4, 20}, {2, 10}});
  CHECK(plan({prefill(1, 8000), prefill(2, 8000), prefill(3, 9000)}) == shares{{1, 100}});
  CHECK(plan({prefill(1, 8000), prefill(2, 9000), prefill(3, 30)}) == shares{{1, 70}, {3, 30}});
  CHECK(plan({prefill(1, 8000, -1), prefill(2, 3)}) == shares{{1, 100}});  // it ranks first
  CHECK(plan({prefill(1, 90, -1), prefill(2, 40), prefill(3, 5, 1)}) == shares{{1, 90}, {2, 10}});
  CHECK(plan({prefill(1, 100), prefill(2, 3)}) == shares{{1, 100}});  // finished by this step
  CHECK(plain(choose_step({prefill(1, 600), prefill(2, 6)}, {512, 100, 16}, cost)) ==
        shares{{1, 10}, {2, 6}});  // no time, one smallest chunk for both
  CHECK(plain(choose_step({prefill(1, 600), prefill(2, 6)}, {1, 100'000, 16}, cost)) ==
        shares{{1, 1}});
}

TEST_CASE("step_plan: every decode row goes, and a waiting prefill gets what they leave",
          "[core]") {
  std::vector<step_candidate> c;
  for (std::uint64_t id = 1; id <= 31; ++id) c.push_back(decode(id));
  CHECK(choose_step(c, {32, 1000, 16}, {}).size() == 31);
  c.insert(c.begin(), prefill(40, 100));
  const auto s = choose_step(c, {32, 1000, 16}, {});
  CHECK(s.size() == 32);
  CHECK(s.back().request.value == 40);
  CHECK(s.back().tokens == 1);
  CHECK(choose_step(c, {40, 1000, 16}, {}).back().tokens == 9);
}

TEST_CASE(
    "step_plan: random candidates never break the budget, all decode rows and the first prefill "
    "run",
    "[core]") {
  std::mt19937_64 random(5);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  for (int i = 0; i < 20'000; ++i) {
    std::vector<step_candidate> c;
    const auto n = 1 + below(12);
    for (std::uint32_t k = 0; k < n; ++k)
      c.push_back(below(2) ? decode(k + 1) : prefill(k + 1, 1 + below(200)));
    const step_budget budget{n + below(100), below(50'000), 1 + below(32)};
    step_cost cost;
    cost.learn(below(5), below(100), below(1'000'000));
    const auto s = choose_step(c, budget, cost);
    std::vector<std::uint64_t> must;  // in this order
    for (const auto& x : c)
      if (x.decoding) must.push_back(x.request.value);
    const auto first = std::find_if(c.begin(), c.end(), [](const auto& x) { return !x.decoding; });
    if (first != c.end()) must.push_back(first->request.value);
    REQUIRE(s.size() >= must.size());
    for (std::size_t k = 0; k < must.size(); ++k) REQUIRE(s[k].request.value == must[k]);
    std::uint32_t tokens = 0;
    for (const auto& x : s) {
      REQUIRE(x.tokens >= 1);
      REQUIRE(x.tokens <= c[x.request.value - 1].tokens);
      tokens += x.tokens;
    }
    REQUIRE(tokens <= budget.tokens);
    if (first != c.end() &&
        s[must.size() - 1].tokens < first->tokens) {  // the first in rank is not done
      std::uint64_t others = 0;
      for (auto k = must.size(); k < s.size(); ++k) others += s[k].tokens;
      REQUIRE(others <= s[must.size() - 1].tokens);
    }
  }
}

TEST_CASE("step_cost: follows what steps take, and one outlier fades", "[core]") {
  step_cost cost;
  for (int i = 0; i < 20; ++i) cost.learn(0, 100, 20'000);
  CHECK(cost.prefill_token_ns() < 250'000);
  for (int i = 0; i < 20; ++i) cost.learn(0, 100, 100'000);
  CHECK(cost.prefill_token_ns() > 900'000);
  CHECK(cost.prefill_token_ns() <= 1'000'000);
  const auto before = cost.prefill_token_ns();
  cost.learn(0, 100, 60'000'000);
  CHECK(cost.prefill_token_ns() <= before * 3 / 2);
  for (int i = 0; i < 4; ++i) cost.learn(0, 100, 100'000);
  CHECK(cost.prefill_token_ns() < before * 21 / 20);
  for (int i = 0; i < 30; ++i) cost.learn(8, 0, 8'000);
  CHECK(cost.decode_row_ns() >= 990'000);
  CHECK(cost.decode_row_ns() <= 1'010'000);
  for (int i = 0; i < 30; ++i) cost.learn(8, 10, 8'000 + 5'000);
  CHECK(cost.prefill_token_ns() >= 480'000);
  CHECK(cost.prefill_token_ns() <= 520'000);
}
