#include "tools/bench/load/load_plan.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <set>
#include <stdexcept>

namespace {

using namespace troupe;

std::size_t words_of(const std::string& prompt) {
  return static_cast<std::size_t>(std::count(prompt.begin(), prompt.end(), ' ')) + 1;
}

TEST_CASE("load plan: a range is read, and a wrong one is refused by its option's name") {
  std::uint32_t low = 0, high = 0;
  read_range("--prompt-words", "20:200", low, high);
  CHECK(low == 20);
  CHECK(high == 200);
  read_range("--max-tokens", "7", low, high);
  CHECK(low == 7);
  CHECK(high == 7);
  for (const char* wrong : {"", "0", "x", "5:", ":5", "9:3", "3:9:27", "-1", "1000001", "5 "})
    CHECK_THROWS_WITH(read_range("--max-tokens", wrong, low, high),
                      Catch::Contains("--max-tokens"));
}

TEST_CASE("load plan: answers have lengths of their range, whoever leaves does so before the end") {
  load_options options, fixed;
  options.tokens_min = 3;
  options.tokens_max = 5;
  options.cancel_share = 0.5;
  std::set<std::uint32_t> lengths;
  bool before_its_end = true, same_prompts = true;
  for (std::uint64_t i = 0; i < 200; ++i) {
    const auto one = plan_request(options, i);
    lengths.insert(one.max_tokens);
    before_its_end &= one.cancel_after.value_or(0) < one.max_tokens;
    same_prompts &= one.prompt == plan_request(fixed, i).prompt;
  }
  CHECK(lengths == std::set<std::uint32_t>{3, 4, 5});
  CHECK(before_its_end);
  CHECK(same_prompts);
  CHECK(plan_request(fixed, 0).max_tokens == 64);
}

TEST_CASE("load plan: the same seed and number give the same request, others another") {
  load_options options;
  options.words_min = 5;
  options.words_max = 9;
  std::set<std::string> prompts;
  std::set<std::size_t> lengths;
  bool same = true, plain = true;
  for (std::uint64_t i = 0; i < 200; ++i) {
    const auto one = plan_request(options, i);
    same &= plan_request(options, i).prompt == one.prompt;
    plain &= !one.cancel_after && !one.slow;
    prompts.insert(one.prompt);
    lengths.insert(words_of(one.prompt));
  }
  CHECK(same);
  CHECK(plain);
  CHECK(prompts.size() == 200);
  CHECK(lengths == std::set<std::size_t>{5, 6, 7, 8, 9});
  auto other = options;
  other.seed = 2;
  CHECK(plan_request(other, 0).prompt != plan_request(options, 0).prompt);
}

TEST_CASE(
    "load plan: shares are met, and who leaves does not change who reads slowly or what is asked") {
  load_options quiet, wild;
  quiet.slow_share = wild.slow_share = 0.25;
  wild.cancel_share = 0.5;
  int cancelled = 0, slow = 0, reset = 0;
  bool same = true;
  std::set<std::uint32_t> after;
  constexpr int count = 2000;
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto one = plan_request(wild, i), other = plan_request(quiet, i);
    same &= one.prompt == other.prompt && one.slow == other.slow;
    slow += one.slow;
    if (!one.cancel_after) continue;
    ++cancelled;
    reset += one.reset;
    after.insert(*one.cancel_after);
  }
  CHECK(same);
  // Five standard deviations of a binomial count: 112 and 97.
  CHECK(std::abs(cancelled - count / 2) < 112);
  CHECK(std::abs(slow - count / 4) < 97);
  CHECK(std::abs(reset - cancelled / 2) < 80);
  CHECK(*after.begin() == 0);
  CHECK(*after.rbegin() == wild.tokens_max - 1);
}

TEST_CASE("load plan: arrivals are exponential with the rate's mean") {
  double sum = 0;
  int long_ones = 0;
  bool sane = true;
  constexpr int count = 4000;
  for (std::uint64_t i = 0; i < count; ++i) {
    const double gap = arrival_gap_s(8, 1, i);
    sane &= gap >= 0 && std::isfinite(gap);
    sum += gap;
    long_ones += gap > 1.0 / 8;
  }
  CHECK(sane);
  // The mean of 4,000 has a deviation of 1.6 % of itself; P(gap > mean) = 1 / e, deviation 30
  // counts.
  CHECK(sum / count == Approx(1.0 / 8).epsilon(0.08));
  CHECK(std::abs(long_ones - count * std::exp(-1.0)) < 150);
  CHECK(arrival_gap_s(8, 1, 3) == arrival_gap_s(8, 1, 3));
}

TEST_CASE("load plan: a body asks for what the endpoint knows") {
  load_options options;
  options.model = "m";
  const auto plain = request_body(options, "say \"hi\"", 9, false, false);
  CHECK(plain.find("\"prompt\":\"say \\\"hi\\\"\"") != std::string::npos);
  CHECK(plain.find("\"max_tokens\":9") != std::string::npos);
  CHECK(plain.find("ignore_eos") == std::string::npos);
  CHECK(plain.find("stream_options") == std::string::npos);
  options.endpoint = "chat";
  const auto chat = request_body(options, "hi", 9, true, true);
  CHECK(chat.find("\"messages\":[{\"content\":\"hi\",\"role\":\"user\"}]") != std::string::npos);
  CHECK(chat.find("\"include_usage\":true") != std::string::npos);
  CHECK(chat.find("\"ignore_eos\":true") != std::string::npos);
}

}  // namespace
