#include <algorithm>
#include <catch2/catch.hpp>
#include <random>

#include "tests/gpu/cpu/sampler_question.hpp"

using namespace troupe;
using namespace troupe::gpu;
using namespace troupe::gpu::test;

namespace {

/// The rules of the penalties as their documentation writes them, over whole arrays in double.
std::vector<double> reference_logits(const question& q) {
  const auto& p = q.slice.decode->sampling;
  std::vector<double> out(q.logits.begin(), q.logits.end());
  std::vector<int> prompt(out.size(), 0), generated(out.size(), 0);
  for (std::size_t i = 0; i < q.slice.history.size(); ++i)
    ++(i < q.slice.history_prompt ? prompt
                                  : generated)[static_cast<std::size_t>(q.slice.history[i])];
  for (const auto& [token, bias] : p.logit_bias) out[static_cast<std::size_t>(token)] += bias;
  for (std::size_t t = 0; t < out.size(); ++t) {
    if (prompt[t] + generated[t] > 0)
      out[t] = out[t] > 0 ? out[t] / p.repetition_penalty : out[t] * p.repetition_penalty;
    out[t] -= p.frequency_penalty * generated[t];
    out[t] -= p.presence_penalty * (generated[t] > 0 ? 1 : 0);
  }
  return out;
}

token_id likeliest_of(const std::vector<double>& logits) {
  return static_cast<token_id>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

/// The word "blue" is token 3, likeliest after itself.
question blue_blue_blue_blue() {
  question q;
  q.logits = {0.5f, -1.0f, 2.9f, 4.0f, 1.0f, -0.2f};
  q.slice.history = {3, 3, 3, 3};
  q.slice.history_prompt = 4;
  q.slice.decode.edit().sampling.temperature = 0.0f;
  q.slice.decode.edit().top_logprobs = 6;
  return q;
}

}  // namespace

TEST_CASE(
    "sampler: C130 the prompt counts for the repetition penalty at the first step, and for "
    "no other penalty",
    "[gpu]") {
  question q = blue_blue_blue_blue();
  CHECK(q.token() == 3);
  q.slice.decode.edit().sampling.presence_penalty = 2.0f;
  CHECK(q.token() == 3);  // nothing was generated yet
  q.slice.decode.edit().sampling.presence_penalty = 0.0f;
  q.slice.decode.edit().sampling.frequency_penalty = 2.0f;
  CHECK(q.token() == 3);
  q.slice.decode.edit().sampling.frequency_penalty = 0.0f;
  q.slice.decode.edit().sampling.repetition_penalty =
      1.5f;  // 4.0 / 1.5 = 2.67 < 2.9, once however often seen
  CHECK(q.token() == 2);
  q.slice.decode.edit().sampling.repetition_penalty = 1.3f;  // 3.08
  CHECK(q.token() == 3);
}

TEST_CASE("sampler: C130 generated tokens count once for presence, each time for frequency",
          "[gpu]") {
  question q = blue_blue_blue_blue();
  q.slice.history = {3, 3, 3, 3, 3, 3, 5};
  q.slice.decode.edit().sampling.presence_penalty = 1.0f;  // 4 - 1 = 3.0 > 2.9
  CHECK(q.token() == 3);
  q.slice.decode.edit().sampling.presence_penalty = 1.2f;  // 2.8
  CHECK(q.token() == 2);
  q.slice.decode.edit().sampling.presence_penalty = 0.0f;
  q.slice.decode.edit().sampling.frequency_penalty = 0.5f;  // 4 - 2 * 0.5 = 3.0
  CHECK(q.token() == 3);
  q.slice.decode.edit().sampling.frequency_penalty = 0.6f;  // 2.8
  CHECK(q.token() == 2);
  q.slice.history_prompt = 5;  // one "blue" was generated: 3.4
  CHECK(q.token() == 3);
}

TEST_CASE(
    "sampler: C130 random penalties, biases and histories agree with the reference, and the "
    "reported values stay raw",
    "[gpu]") {
  std::mt19937_64 random(130);
  const auto unit = [&] { return static_cast<double>(random() % 1000) / 1000.0; };
  int moved = 0;
  for (int round = 0; round < 2000; ++round) {
    question q;
    const auto vocab = 5 + random() % 60;
    for (std::size_t i = 0; i < vocab; ++i) q.logits.push_back(static_cast<float>(8 * unit() - 3));
    auto& p = q.slice.decode.edit().sampling;
    p.temperature = 0.0f;
    if (random() % 2) p.repetition_penalty = static_cast<float>(0.5 + 1.5 * unit());
    if (random() % 2) p.presence_penalty = static_cast<float>(4 * unit() - 2);
    if (random() % 2) p.frequency_penalty = static_cast<float>(4 * unit() - 2);
    if (random() % 2)
      for (token_id t = 0; t < static_cast<token_id>(vocab); t += 3)
        p.logit_bias.emplace_back(t, static_cast<float>(6 * unit() - 3));
    for (auto n = random() % 40; n > 0; --n)
      q.slice.history.push_back(static_cast<token_id>(random() % vocab));
    q.slice.history_prompt = static_cast<std::uint32_t>(
        q.slice.history.empty() ? 0 : random() % (q.slice.history.size() + 1));
    q.slice.decode.edit().top_logprobs = 3;
    auto expected = reference_logits(q);
    const token_id best = likeliest_of(expected);
    const double first = expected[static_cast<std::size_t>(best)];
    expected[static_cast<std::size_t>(best)] = -1e9;
    if (first - *std::max_element(expected.begin(), expected.end()) < 1e-4) continue;  // a tie
    const auto answer = q.ask();
    REQUIRE(answer.sampled);
    REQUIRE(answer.sampled->token == best);
    double total = 0.0;
    for (const float x : q.logits) total += std::exp(static_cast<double>(x));
    const double raw = q.logits[static_cast<std::size_t>(best)] - std::log(total);
    REQUIRE(answer.sampled->logprob == Approx(raw).margin(1e-4));
    const auto plain = likeliest_of({q.logits.begin(), q.logits.end()});
    REQUIRE(answer.sampled->top.at(0).first == plain);
    moved += best != plain ? 1 : 0;
  }
  CHECK(moved > 500);
}

TEST_CASE("sampler: C130 penalties move draws as they move the greedy choice", "[gpu]") {
  question q = with_probabilities({0.4, 0.3, 0.2, 0.1});
  q.slice.history = {0, 1, 1};
  q.slice.history_prompt = 1;
  q.slice.decode.edit().sampling.frequency_penalty = 0.5f;
  q.slice.decode.edit().sampling.presence_penalty = 1.0f;
  q.slice.decode.edit().sampling.repetition_penalty = 1.2f;
  q.slice.decode.edit().sampling.logit_bias = {{3, 1.0f}};
  const auto logits = reference_logits(q);
  double total = 0.0;
  for (const double x : logits) total += std::exp(x);
  constexpr int draws = 20000;
  const auto counts = q.counts(draws);
  double chi = 0.0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double wanted = draws * std::exp(logits[i]) / total;
    chi += (counts[i] - wanted) * (counts[i] - wanted) / wanted;
  }
  CHECK(chi < 16.3);  // 3 degrees of freedom, one in a thousand; the seed is fixed
}

TEST_CASE("sampler: C130 a row's penalties leave no trace in the next row", "[gpu]") {
  question q = blue_blue_blue_blue();
  q.slice.decode.edit().sampling.repetition_penalty = 1.5f;
  q.slice.decode.edit().sampling.logit_bias = {{0, 1.0f}};
  question plain = blue_blue_blue_blue();
  plain.slice.decode.edit().sampling.repetition_penalty = 1.5f;
  plain.slice.history = {1};
  sampler s(select_kernels("auto"));
  for (int i = 0; i < 3; ++i) {
    for (const question* x : {&q, &plain}) {
      std::vector<float> row = x->logits;
      const auto answer = s.answer({row.data(), 6, &x->slice, -1, true, 1});
      CHECK(answer.sampled == x->ask().sampled);
    }
  }
  CHECK(plain.token() == 3);
}

TEST_CASE("sampler: a bias can force or forbid a token, but never one that is suppressed",
          "[gpu]") {
  question q = with_probabilities({0.7, 0.2, 0.1});
  q.slice.decode.edit().sampling.logit_bias = {{2, 100.0f}};
  CHECK(q.seen(200) == std::set<token_id>{2});
  q.slice.suppressed = {2};
  CHECK(q.seen(200) == std::set<token_id>{0, 1});
  q.slice.decode.edit().sampling.logit_bias = {{0, -100.0f}, {2, 100.0f}};
  CHECK(q.seen(200) == std::set<token_id>{1});
}

TEST_CASE("sampler: extreme penalties prefer or avoid and never make a NaN", "[gpu]") {
  question q;
  q.logits = {1.0f, -30.0f, 30.0f, 0.0f, -infinity};
  q.slice.history = {1, 2, 3, 4};
  auto& p = q.slice.decode.edit().sampling;
  for (const float penalty : {1e-38f, 1e-45f, 0.0f}) {
    p.repetition_penalty = penalty;
    p.presence_penalty = -2.0f;
    CHECK(q.seen(50) == std::set<token_id>{2});
  }
  p.repetition_penalty = 1e38f;
  p.presence_penalty = p.frequency_penalty = 0.0f;
  CHECK(q.seen(50) == std::set<token_id>{0, 2, 3});
  p.repetition_penalty = std::nanf("");
  CHECK(q.ask().bad_logits);
}

TEST_CASE("sampler: the mass is the raw probability of the likeliest tokens together", "[gpu]") {
  question q = with_probabilities({0.1, 0.4, 0.2, 0.25, 0.05});
  q.slice.decode.edit().confidence = confidence_stop{1, 0.25f, 1};
  CHECK(q.ask().sampled->mass == Approx(0.4));
  CHECK(q.ask().sampled->top.empty());
  q.slice.decode.edit().confidence = confidence_stop{3, 0.25f, 1};
  q.slice.decode.edit().sampling.temperature = 0.1f;
  q.slice.decode.edit().sampling.logit_bias = {{4, 50.0f}};
  CHECK(q.ask().sampled->mass == Approx(0.85));
  q.slice.decode.edit().top_logprobs = 2;
  CHECK(q.ask().sampled->top.size() == 2);
  q.slice.decode.edit().confidence = confidence_stop{20, 0.25f, 1};
  CHECK(q.ask().sampled->mass == Approx(1.0));
  q.slice.decode.edit().confidence.reset();
  CHECK(q.ask().sampled->mass == 0.0f);
}
