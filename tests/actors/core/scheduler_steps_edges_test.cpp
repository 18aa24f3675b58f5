// Rules of the scheduler for steps and their results: each case stands for planted faults
// (tests/sim/mutants) that all others let pass.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/actors/core/machine_alone.hpp"

using namespace troupe::core;
using namespace troupe::core::testing;
using troupe::token_id;

TEST_CASE(
    "scheduler: results in another order than the plan's are a violation and reach no session",
    "[core]") {
  machine_alone a(roomy_limits());
  start_one(a, make_submit(1, 10, 5));
  a.send(make_submit(2, 10, 5));
  a.send(granted{{request_id{2}, 1}, {2}, 0});
  a.send(step_done{step_id{1}, {token_for(1, 5)}, 10});
  REQUIRE(a.sent<step_plan>().size() == 1);
  REQUIRE(a.sent<step_plan>()[0].items.size() == 2);
  a.send(step_done{step_id{2}, {token_for(2, 5), token_for(1, 6)}, 10});
  CHECK(a.sent<violation>().size() == 1);
  CHECK(a.sent<tokens_out>().empty());
  CHECK(a.sent<ended>().size() == 2);
}

TEST_CASE("scheduler: an end or stop token before min_tokens is a token like others", "[core]") {
  machine_alone a(roomy_limits());
  auto s = make_submit(1, 10, 9);
  s.decode.min_tokens = 2;
  s.decode.stop_token_ids = {7};
  start_one(a, s);
  a.send(step_done{step_id{1}, {token_for(1, 0)}, 10});
  CHECK(a.sent<ended>().empty());
  a.send(step_done{step_id{2}, {token_for(1, 7)}, 10});
  CHECK(a.sent<ended>().empty());
  a.send(step_done{step_id{3}, {token_for(1, 7)}, 10});
  REQUIRE(a.sent<ended>().size() == 1);
  CHECK(a.sent<ended>()[0].why == end_reason::stop_token);
  CHECK(a.sent<ended>()[0].completion_tokens == 3);
}

TEST_CASE("scheduler: chunks become shorter when steps take longer, whether by prompts or by rows",
          "[core]") {
  auto limits = roomy_limits();
  limits.max_step_us = 100'000;
  machine_alone a(limits);
  a.send(make_submit(1, 2000, 5));
  std::vector<block_id> blocks(126);
  for (block_id b = 0; b < blocks.size(); ++b) blocks[b] = b;
  a.send(granted{{request_id{1}, 1}, blocks, 0});
  const auto chunk = [&](std::size_t nth) {
    return a.sent<step_plan>().at(0).items.at(nth).tokens.size();
  };
  const auto first = chunk(0);
  for (std::uint64_t step = 1; step <= 5; ++step)
    a.send(step_done{step_id{step}, {{request_id{1}, false, {}, {}}}, 500'000});
  CHECK(chunk(0) < first);

  machine_alone b(limits);
  start_one(b, make_submit(1, 10, 200));
  b.send(granted{{request_id{1}, 1}, {20}, 0});
  b.send(step_done{step_id{1}, {token_for(1, 5)}, 10});
  for (std::uint64_t step = 2; step < 14; ++step)
    b.send(step_done{step_id{step}, {token_for(1, 5)}, 500'000});
  b.send(make_submit(2, 100, 5));
  b.send(granted{{request_id{2}, 1}, {10, 11, 12, 13, 14, 15, 16}, 0});
  b.send(step_done{step_id{14}, {token_for(1, 5)}, 500'000});
  REQUIRE(b.sent<step_plan>().size() == 1);
  CHECK(b.sent<step_plan>()[0].items.back().request == request_id{2});
  CHECK(b.sent<step_plan>()[0].items.back().tokens.size() == 16);
}

TEST_CASE("scheduler: a plan's item carries what its request asked for, when it samples",
          "[core]") {
  auto limits = roomy_limits();
  limits.max_num_batched_tokens = 12;
  machine_alone a(limits);
  auto s = make_submit(1, 20, 9);
  s.decode.sampling.temperature = 0.25f;
  s.decode.sampling.presence_penalty = 0.5f;
  s.decode.top_logprobs = 3;
  s.decode.confidence = troupe::confidence_stop{7, 0.5f, 2};
  s.decode.min_tokens = 1;
  s.decode.stop_token_ids = {7, 5};
  a.send(s);
  a.send(granted{{request_id{1}, 1}, {4, 9}, 0});
  const auto item = [&] { return a.sent<step_plan>().at(0).items.at(0); };
  auto i = item();
  CHECK(i.tokens == std::vector<token_id>(s.prompt.begin(), s.prompt.begin() + 12));
  CHECK(i.blocks == std::vector<block_id>{4, 9});
  CHECK_FALSE(i.sample);
  CHECK(i.history.empty());
  CHECK(i.suppressed.empty());
  CHECK(i.score_targets.empty());
  a.send(step_done{step_id{1}, {{request_id{1}, false, {}, {}}}, 10});
  CHECK(a.sent<tokens_out>().empty());
  i = item();
  CHECK(i.score_targets.empty());
  CHECK(i.start == 12);
  CHECK(i.tokens.size() == 8);
  CHECK(i.sample);
  CHECK(i.decode->sampling == s.decode.sampling);
  CHECK(i.decode->top_logprobs == 3);
  CHECK(i.history == s.prompt);
  CHECK(i.history_prompt == 20);
  CHECK(i.decode->confidence == s.decode.confidence);
  CHECK(i.suppressed == std::vector<token_id>{5, 7, 0});
  a.send(step_done{step_id{2}, {token_for(1, 42)}, 10});
  i = item();
  CHECK(i.history.size() == 21);
  CHECK(i.suppressed.empty());

  machine_alone b(roomy_limits());
  auto plain = make_submit(1, 10, 9);
  plain.decode.min_tokens = 1;
  plain.decode.ignore_eos = true;
  plain.decode.stop_token_ids = {7};
  start_one(b, plain);
  const auto j = b.sent<step_plan>().at(0).items.at(0);
  CHECK(j.sample);
  CHECK(j.history.empty());
  CHECK(j.history_prompt == 0);
  CHECK_FALSE(j.decode->confidence);
  CHECK(j.suppressed == std::vector<token_id>{7});

  machine_alone c(roomy_limits());
  start_one(c, make_submit(1, 10, 0));
  CHECK_FALSE(c.sent<step_plan>().at(0).items.at(0).sample);
}

TEST_CASE(
    "scheduler: only the given number of unsure steps in a row, after min_tokens, ends the request",
    "[core]") {
  machine_alone a(roomy_limits());
  auto s = make_submit(1, 4, 30);
  s.decode.confidence = troupe::confidence_stop{1, 0.5f, 2};
  s.decode.min_tokens = 5;
  start_one(a, s);
  std::uint64_t step = 0;
  const auto draw = [&](float mass) {
    auto result = token_for(1, 42);
    result.sampled->mass = mass;
    a.send(step_done{step_id{++step}, {result}, 10});
    return !a.sent<ended>().empty();
  };
  for (int i = 0; i < 4; ++i) REQUIRE_FALSE(draw(0.1f));
  REQUIRE_FALSE(draw(0.5f));  // as sure as asked for
  REQUIRE_FALSE(draw(0.1f));
  REQUIRE_FALSE(draw(0.9f));
  REQUIRE_FALSE(draw(0.1f));
  REQUIRE(draw(0.1f));
  CHECK(a.sent<ended>()[0].why == end_reason::stop_confidence);
  CHECK(a.sent<ended>()[0].completion_tokens == 9);
}

TEST_CASE("scheduler: a step that brings no token or too few scores broke a rule", "[core]") {
  machine_alone a(roomy_limits());
  start_one(a, make_submit(1, 10, 5));
  a.send(step_done{step_id{1}, {{request_id{1}, false, {}, {}}}, 10});
  CHECK(a.sent<violation>().size() == 1);
  REQUIRE(a.sent<ended>().size() == 1);
  CHECK(a.sent<ended>()[0].why == end_reason::step_failed);
  CHECK(a.sent<tokens_out>().empty());

  machine_alone b(roomy_limits());
  auto s = make_submit(1, 10, 5);
  s.score_prompt = true;
  start_one(b, s);
  b.send(step_done{step_id{1}, {token_for(1, 5)}, 10});
  CHECK(b.sent<violation>().size() == 1);
}

TEST_CASE("scheduler: the first answer says how much of the prompt was found", "[core]") {
  machine_alone a(roomy_limits());
  a.send(make_submit(1, 20, 5));
  a.send(granted{{request_id{1}, 1}, {3, 4}, 1});
  REQUIRE(a.sent<step_plan>().size() == 1);
  CHECK(a.sent<step_plan>()[0].items.at(0).start == 16);
  a.send(step_done{step_id{1}, {token_for(1, 5)}, 10});
  REQUIRE(a.sent<tokens_out>().size() == 1);
  CHECK(a.sent<tokens_out>()[0].cached_tokens == 16);
}
