#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "tests/gpu/cpu/sampler_question.hpp"

using namespace troupe;
using namespace troupe::gpu;
using namespace troupe::gpu::test;

TEST_CASE("sampler: draws follow the distribution", "[gpu]") {
  const std::vector<double> p{0.05, 0.3, 0.02, 0.2, 0.1, 0.08, 0.15, 0.1};
  question q = with_probabilities(p);
  SECTION("plain") {}
  SECTION("through the candidate path") {
    q.slice.decode.edit().sampling.top_k = 8;
  }
  constexpr int draws = 20000;
  const auto counts = q.counts(draws);
  double chi = 0.0;
  for (std::size_t i = 0; i < p.size(); ++i) {
    chi += std::pow(counts[i] - draws * p[i], 2) / (draws * p[i]);
  }
  CHECK(chi < 24.3);  // 7 degrees of freedom, one in a thousand; the seed is fixed
}

TEST_CASE("sampler: temperature sharpens and flattens as p^(1/T)", "[gpu]") {
  question q = with_probabilities({0.6, 0.3, 0.1});
  q.slice.decode.edit().sampling.temperature = 0.5f;  // 0.36 : 0.09 : 0.01
  constexpr int draws = 20000;
  const auto counts = q.counts(draws);
  const double expected[] = {0.36 / 0.46, 0.09 / 0.46, 0.01 / 0.46};
  double chi = 0.0;
  for (int i = 0; i < 3; ++i)
    chi += std::pow(counts[i] - draws * expected[i], 2) / (draws * expected[i]);
  CHECK(chi < 13.8);
}

TEST_CASE("sampler: greedy takes the likeliest, the lower id on a tie", "[gpu]") {
  question q;
  q.logits = std::vector<float>(100, 1.0f);
  q.logits[37] = q.logits[80] = 5.0f;
  q.slice.decode.edit().sampling.temperature = 0.0f;
  CHECK(q.token() == 37);
  q.slice.suppressed = {37};
  CHECK(q.token() == 80);
}

TEST_CASE("sampler: top-k keeps k tokens, ties by lower id; 0 and -1 turn it off", "[gpu]") {
  question q = with_probabilities({0.1, 0.2, 0.1, 0.2, 0.1, 0.2, 0.1});
  q.slice.decode.edit().sampling.top_k = 4;
  CHECK(q.seen(600) == std::set<token_id>{0, 1, 3, 5});
  q.slice.decode.edit().sampling.top_k = 1;
  CHECK(q.seen(50) == std::set<token_id>{1});
  for (const int off : {0, -1, 7, 1000}) {
    q.slice.decode.edit().sampling.top_k = off;
    CHECK(q.seen(600).size() == 7);
  }
}

TEST_CASE("sampler: top-p keeps the shortest prefix that holds the mass; 0 is the top token alone",
          "[gpu]") {
  question q = with_probabilities({0.1, 0.4, 0.2, 0.25, 0.05});
  q.slice.decode.edit().sampling.top_p = 0.6f;
  CHECK(q.seen(500) == std::set<token_id>{1, 3});
  q.slice.decode.edit().sampling.top_p = 0.9f;
  CHECK(q.seen(800) == std::set<token_id>{1, 2, 3, 0});
  q.slice.decode.edit().sampling.top_p = 0.0f;
  CHECK(q.seen(50) == std::set<token_id>{1});
}

TEST_CASE("sampler: top-p works on what top-k left", "[gpu]") {
  question q = with_probabilities({0.3, 0.3, 0.2, 0.2});
  q.slice.decode.edit().sampling.top_k = 2;
  q.slice.decode.edit().sampling.top_p = 0.55f;  // of 0.6: the first holds half, both are needed
  CHECK(q.seen(300) == std::set<token_id>{0, 1});
  q.slice.decode.edit().sampling.top_p = 0.45f;
  CHECK(q.seen(300) == std::set<token_id>{0});
}

TEST_CASE("sampler: min-p keeps tokens by their ratio to the likeliest", "[gpu]") {
  question q = with_probabilities({0.5, 0.26, 0.14, 0.1});
  q.slice.decode.edit().sampling.min_p = 0.25f;
  CHECK(q.seen(500) == std::set<token_id>{0, 1, 2});
  q.slice.decode.edit().sampling.min_p = 1.0f;
  CHECK(q.seen(50) == std::set<token_id>{0});
}

TEST_CASE("sampler: top-p over a large flat vocabulary keeps its share", "[gpu]") {
  question q;
  std::mt19937_64 random(3);
  for (int i = 0; i < 49152; ++i) q.logits.push_back(static_cast<float>(random() % 1000) * 1e-3f);
  q.slice.decode.edit().sampling.top_p = 0.5f;
  std::vector<float> sorted = q.logits;
  std::sort(sorted.rbegin(), sorted.rend());
  double total = 0.0, mass = 0.0;
  for (const float x : sorted) total += std::exp(x);
  std::size_t kept = 0;
  while (mass < 0.5 * total) mass += std::exp(sorted[kept++]);
  for (std::uint32_t i = 0; i < 300; ++i) {
    const token_id token = *q.token(i);
    REQUIRE(q.logits[static_cast<std::size_t>(token)] >= sorted[kept - 1]);
  }
}

TEST_CASE("sampler: NaN, or nothing but -inf, is bad logits and samples nothing", "[gpu]") {
  question q = with_probabilities({0.5, 0.5});
  q.logits.resize(50, -infinity);
  CHECK_FALSE(q.ask().bad_logits);
  q.logits[33] = std::nanf("");
  CHECK(q.ask().bad_logits);
  CHECK_FALSE(q.ask().sampled);
  q.logits.assign(50, -infinity);
  CHECK(q.ask().bad_logits);
  q.logits.assign(50, 1.0f);
  for (token_id i = 0; i < 50; ++i) q.slice.suppressed.push_back(i);
  CHECK_FALSE(q.ask().bad_logits);
  CHECK(q.ask().nothing_allowed);
  q.slice.suppressed.pop_back();
  CHECK(q.token() == 49);
}

TEST_CASE("sampler: only allowed tokens are drawn, in every way to draw and whatever their bias",
          "[gpu]") {
  question q;
  std::mt19937_64 random(5);
  for (int i = 0; i < 200; ++i) q.logits.push_back(static_cast<float>(random() % 1000) * 1e-3f);
  auto& p = q.slice.decode.edit().sampling;
  p.seed = 3;
  p.logit_bias = {{7, 100.0f}};                                 // the likeliest by far, not allowed
  q.slice.allowed = {1ull << 3 | 1ull << 63, 1ull, 1ull << 2};  // 3, 63, 64, 130
  const std::set<token_id> all{3, 63, 64, 130};
  SECTION("plain") {}
  SECTION("top-k") {
    p.top_k = 50;
  }
  SECTION("top-p") {
    p.top_p = 0.999f;
  }
  SECTION("penalties") {
    p.repetition_penalty = 1.1f;
    q.slice.history = {3, 7};
    q.slice.history_prompt = 1;
  }
  CHECK(q.seen(400) == all);
  q.slice.suppressed = {64};  // suppressed wins over allowed
  CHECK(q.seen(400) == std::set<token_id>{3, 63, 130});
  q.slice.decode.edit().sampling.temperature = 0.0f;
  const auto best = *q.token();
  for (const token_id other : {3, 63, 130}) CHECK(q.logits[best] >= q.logits[other]);
  q.slice.suppressed = {3, 63, 64, 130};
  CHECK(q.ask().nothing_allowed);
  CHECK_FALSE(q.ask().sampled);
}

TEST_CASE("sampler: what is reported of an allowed token is its raw log-probability", "[gpu]") {
  question q = with_probabilities({0.7, 0.2, 0.1});
  q.slice.allowed = {0b110};
  q.slice.decode.edit().sampling.temperature = 0.0f;
  q.slice.decode.edit().top_logprobs = 2;
  const auto answer = q.ask();
  REQUIRE(answer.sampled);
  CHECK(answer.sampled->token == 1);
  CHECK(answer.sampled->logprob == Approx(std::log(0.2)));
  CHECK(answer.sampled->top.front().first == 0);
}

TEST_CASE(
    "sampler: log-probabilities are of the raw distribution, lists sorted with ties by lower id",
    "[gpu]") {
  question q = with_probabilities({0.1, 0.3, 0.1, 0.3, 0.2});
  q.slice.decode.edit().sampling.temperature = 0.0f;
  q.slice.suppressed = {1};
  q.slice.decode.edit().top_logprobs = 4;
  q.target = 4;
  const row_answer answer = q.ask();
  REQUIRE(answer.sampled);
  CHECK(answer.sampled->token == 3);
  CHECK(answer.sampled->logprob == Approx(std::log(0.3)));
  REQUIRE(answer.sampled->top.size() == 4);
  const token_id order[] = {1, 3, 4, 0};
  for (int i = 0; i < 4; ++i)
    CHECK(answer.sampled->top[static_cast<std::size_t>(i)].first == order[i]);
  CHECK(answer.sampled->top[0].second == Approx(std::log(0.3)));
  REQUIRE(answer.score);
  CHECK(answer.score->token == 4);
  CHECK(answer.score->logprob == Approx(std::log(0.2)));
}

TEST_CASE("sampler: the random number is a function of seed and position alone, and uniform",
          "[gpu]") {
  CHECK(uniform_at(1, 2) == uniform_at(1, 2));
  CHECK(uniform_at(1, 2) != uniform_at(1, 3));
  CHECK(uniform_at(1, 2) != uniform_at(2, 2));
  std::vector<int> bins(16, 0);
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    for (std::uint64_t position = 0; position < 160; ++position) {
      ++bins[static_cast<std::size_t>(uniform_at(seed, position) * 16)];
    }
  }
  double chi = 0.0;
  for (const int n : bins) chi += (n - 1000.0) * (n - 1000.0) / 1000.0;
  CHECK(chi < 37.7);  // 15 degrees of freedom, one in a thousand
}

TEST_CASE("sampler: tails draw from the same row what single questions with their seeds draw",
          "[gpu]") {
  auto q = with_probabilities({0.3, 0.25, 0.2, 0.15, 0.1});
  auto& wants = q.slice.decode.edit();
  wants.sampling.top_p = 0.95f;
  wants.sampling.presence_penalty = 0.5f;
  wants.sampling.logit_bias = {{1, 0.5f}};
  wants.top_logprobs = 2;
  q.slice.history = {2, 3};
  q.slice.suppressed = {4};
  for (std::uint64_t seed = 1; seed <= 7; ++seed) q.slice.tails.push_back({seed, 1000 + seed});
  std::set<token_id> drawn;
  for (std::uint32_t position = 0; position < 20; ++position) {
    const auto answer = q.ask(position);
    REQUIRE(answer.tails.size() == 7);
    for (std::size_t i = 0; i < 7; ++i) {
      auto single = q;
      single.slice.tails.clear();
      single.slice.decode.edit().sampling.seed = 1001 + i;
      CHECK(answer.tails[i] == *single.ask(position).sampled);
      drawn.insert(answer.tails[i].token);
    }
    auto leader = q;
    leader.slice.tails.clear();
    CHECK(*answer.sampled == *leader.ask(position).sampled);
  }
  CHECK(drawn.size() > 2);
  CHECK_FALSE(drawn.contains(4));
}

TEST_CASE("sampler: no tail draws from a row that is not a number", "[gpu]") {
  auto q = with_probabilities({0.5, 0.5});
  q.logits[0] = std::numeric_limits<float>::quiet_NaN();
  q.slice.tails = {{1, 2}};
  CHECK(q.ask().bad_logits);
  CHECK(q.ask().tails.empty());
}
