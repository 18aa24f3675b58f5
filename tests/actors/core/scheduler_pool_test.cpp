// Requests against the block pool: what fits, who waits, who gives way, and that nothing is lost or
// told twice.
#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/actors/core/scheduler_world.hpp"

using namespace troupe::core;
using namespace troupe::core::testing;
using troupe::token_id;

namespace {

scheduler_limits pool_of(std::uint32_t blocks) {
  auto l = roomy_limits();
  l.num_blocks = blocks;
  l.model_context = 8192;
  return l;
}

std::vector<token_id> alone(const submit& s) {
  auto l = roomy_limits();
  l.num_blocks = 512;
  l.model_context = 8192;
  scheduler_world w(l);
  w.send(s);
  w.run();
  return w.client(s.request.value).tokens;
}

}  // namespace

TEST_CASE(
    "scheduler: C085 a prompt larger than the pool is refused at once and blocks no other request",
    "[core]") {
  scheduler_world w(pool_of(64));
  w.send(make_submit(1, 1500, 10));
  CHECK(w.client(1).refusal.why == refusal::kv_capacity);
  CHECK(w.client(1).refusal.message.find("1024") != std::string::npos);
  CHECK(w.client(1).refusal.message.find("1500") != std::string::npos);
  for (std::uint64_t id = 2; id <= 11; ++id) w.send(make_submit(id, 20, 10));
  w.run();
  for (std::uint64_t id = 2; id <= 11; ++id) CHECK(w.client(id).tokens.size() == 10);
  CHECK(w.machine.waiting() == 0);
  w.require_whole();
}

TEST_CASE("scheduler: C086 prompts around the pool's size run or are refused, none hangs",
          "[core]") {
  for (const std::uint32_t n : {1022u, 1023u, 1024u, 1025u}) {
    INFO(n << " tokens");
    scheduler_world w(pool_of(64));
    w.send(make_submit(1, n, 10));
    w.run();
    if (n < 1024) {
      CHECK(w.client(1).end.why == end_reason::length);
      CHECK(w.client(1).tokens.size() == 1024 - n);
    } else {
      CHECK(w.client(1).refusal.why == refusal::kv_capacity);
    }
    w.require_whole();
  }
}

TEST_CASE("scheduler: blocks in quarantine are no room for new requests", "[core]") {
  scheduler_world w(pool_of(64));
  w.send(lost{4});
  w.send(make_submit(1, 960, 10));
  CHECK(w.client(1).refusal.why == refusal::kv_capacity);
  CHECK(w.client(1).refusal.message.find("room for 960") != std::string::npos);
  w.send(make_submit(2, 950, 100));
  w.run();
  CHECK(w.client(2).tokens.size() == 10);  // clipped to the room left
  w.require_whole();
}

TEST_CASE("scheduler: refusals name the field's value and limit", "[core]") {
  auto limits = pool_of(64);
  limits.model_context = 100;
  scheduler_world w(limits);
  w.send(make_submit(1, 100, 10));
  CHECK(w.client(1).refusal.why == refusal::context_length);
  CHECK(w.client(1).refusal.message ==
        "This model's maximum context length is 100 tokens, however the prompt has 100 tokens");
  w.send(make_submit(2, 0, 10));
  CHECK(w.client(2).refusal.why == refusal::empty_prompt);
  auto wild = make_submit(3, 10, 10);
  auto tokens = prompt_of(10, 3);
  tokens[4] = 1000;
  wild.prompt = tokens;
  w.send(wild);
  CHECK(w.client(3).refusal.why == refusal::invalid_token);
  CHECK(w.client(3).refusal.message.find("token 4 is 1000") != std::string::npos);
  wild.request = request_id{4};
  tokens[4] = -1;
  wild.prompt = tokens;
  w.send(wild);
  CHECK(w.client(4).refusal.why == refusal::invalid_token);
  w.send(make_submit(5, 100, 0));
  CHECK(w.client(5).admitted == 1);  // scoring needs no room for a token
  w.run();
  CHECK(w.client(5).end.why == end_reason::length);
  CHECK(w.client(5).end.completion_tokens == 0);
  w.require_whole();
}

TEST_CASE("scheduler: max_tokens is clipped to the room left", "[core]") {
  auto limits = pool_of(64);
  limits.model_context = 100;
  scheduler_world w(limits);
  auto s = make_submit(1, 90, 50);
  w.send(s);
  s.request = request_id{2};
  s.decode.max_tokens.reset();
  w.send(s);
  w.run();
  CHECK(w.client(1).tokens.size() == 10);
  CHECK(w.client(2).tokens.size() == 10);
  CHECK(w.client(1).end.why == end_reason::length);
}

TEST_CASE("scheduler: C088 after a burst cancelled in all states the next request starts at once",
          "[core]") {
  auto limits = pool_of(24);
  limits.max_num_queued_reqs = 200;
  limits.max_num_batched_tokens = 32;
  scheduler_world w(limits);
  for (std::uint64_t id = 1; id <= 100; ++id)
    w.send(make_submit(id, static_cast<std::uint32_t>(20 + id % 40), 60));
  for (std::uint64_t id = 1; id <= 100; ++id) {
    w.cancel((id * 37) % 100 + 1);
    for (std::uint64_t k = 0; k < id % 4; ++k) w.allocate_one();
    for (std::uint64_t k = 0; k < id % 3; ++k) w.answer_one();
    if (id % 2 == 0) w.finish_step();
  }
  w.run();
  w.require_whole();
  w.send(make_submit(101, 50, 3));
  REQUIRE(w.sent<reserve>().size() == 1);
  CHECK(w.sent<reserve>()[0].keep_free == 0);
  w.settle_allocator();
  CHECK(w.planned(101));
  w.run();
  CHECK(w.client(101).tokens.size() == 3);
  w.require_whole();
}

TEST_CASE(
    "scheduler: no request overtakes a denied head of the queue, and it gets in when blocks return",
    "[core]") {
  scheduler_world w(pool_of(8));
  w.send(make_submit(1, 60, 30));
  w.settle_allocator();
  w.send(make_submit(2, 100, 4));
  w.settle_allocator();
  REQUIRE(w.state(2) == request_state::queued);
  w.send(make_submit(3, 5, 4));
  w.settle_allocator();
  CHECK(w.state(3) == request_state::queued);
  w.run();
  CHECK(w.client(1).tokens.size() == 30);
  CHECK(w.client(2).tokens.size() == 4);
  CHECK(w.client(3).tokens.size() == 4);
  w.require_whole();
}

TEST_CASE("scheduler: a denial while one runs alone is a violation and ends it instead of hanging",
          "[core]") {
  scheduler_machine m(roomy_limits());
  effects out;
  m.on(make_submit(1, 10, 5), 0, out);
  out.clear();
  m.on(denied{{request_id{1}, 1}}, 1, out);
  int violations = 0, ends = 0, releases = 0;
  for (const auto& e : out) {
    violations += std::holds_alternative<violation>(e) ? 1 : 0;
    releases += std::holds_alternative<release>(e) ? 1 : 0;
    if (const auto* x = std::get_if<ended>(&e)) {
      ++ends;
      CHECK(x->why == end_reason::engine_failed);
    }
  }
  CHECK(violations == 1);
  CHECK(ends == 1);
  CHECK(releases == 0);
  CHECK(m.idle());
}

TEST_CASE("scheduler: C091 in a tight pool the oldest always finishes and work gets done",
          "[core]") {
  auto limits = pool_of(200);
  limits.max_num_seqs = 32;
  limits.max_num_batched_tokens = 512;
  limits.max_num_queued_reqs = 100;
  scheduler_world w(limits);
  w.step_us = 20'000;
  std::uint64_t next = 0;
  std::vector<std::uint64_t> completed_in(12, 0);
  const auto start = w.now;
  time_us arrival = start;
  while (w.now - start < 60'000'000) {
    for (; arrival <= w.now; arrival += 33'333) {
      ++next;
      auto s = make_submit(next, 540, static_cast<std::uint32_t>(100 + next % 100));
      auto prompt = prompt_of(512, 7);
      prompt.insert(prompt.end(), s.prompt.begin() + 512, s.prompt.end());
      s.prompt = prompt;
      w.send(s);
    }
    w.settle_allocator();
    if (!w.finish_step()) w.now += 1000;
    const auto window =
        std::min<std::size_t>(11, static_cast<std::size_t>((w.now - start) / 5'000'000));
    completed_in[window] += w.sent<ended>().size();
    // The best-ranked request with blocks is never the victim.
    for (const auto& r : w.sent<release>()) {
      if (!r.preempted) continue;
      bool better_runs = false;
      for (std::uint64_t id = 1; id < r.lease.request.value; ++id)
        better_runs = better_runs || w.blocks_of(id) > 0;
      CHECK(better_runs);
    }
  }
  std::uint64_t completed = 0;
  for (const auto n : completed_in) {
    CHECK(n > 0);
    completed += n;
  }
  INFO(w.preemptions << " preemptions for " << completed << " completed");
  CHECK(w.preemptions <= 2 * completed);
  w.run();
  w.require_whole();
}

TEST_CASE(
    "scheduler: C092 a run preempted at output token 1, 100, 399 or twice gives the same tokens",
    "[core]") {
  const auto victim = make_submit(2, 30, 400);
  const auto expected = alone(victim);
  REQUIRE(expected.size() == 400);
  for (const std::vector<std::size_t>& points :
       {std::vector<std::size_t>{1}, {100}, {399}, {100, 399}, {30, 60}}) {
    auto limits = pool_of(4096);
    limits.block_size = 1;  // so that a rival runs out at any token
    scheduler_world w(limits);
    // The rival ranks first and is two steps ahead. Its growth is denied from the block on that it
    // will need when the victim has the wanted number of tokens.
    std::size_t denied_from = 40 + 2 + points[0];
    w.deny = [&](const reserve& r) {
      return r.lease.request.value == 1 && w.preemptions < points.size() &&
             w.blocks_of(1) >= denied_from - 1;
    };
    w.send(make_submit(1, 40, 1000));
    REQUIRE((w.allocate_one() && w.answer_one()));
    w.send(victim);
    REQUIRE((w.allocate_one() && w.answer_one() &&
             w.finish_step()));  // the rival's growth; the victim still asks
    std::vector<std::size_t> preempted_at;
    while (w.client(2).ended == 0) {
      w.settle_allocator();
      REQUIRE(w.finish_step());
      if (preempted_at.size() < w.preemptions) {
        REQUIRE(w.sent<release>().at(0).lease.request.value == 2);
        preempted_at.push_back(w.client(2).tokens.size());
        denied_from = 1'000'000;
      }
      const auto done = preempted_at.size();
      if (denied_from == 1'000'000 && done < points.size() &&
          w.state(2) == request_state::decoding_in_flight)
        denied_from = 40 + w.client(1).tokens.size() + points[done] - w.client(2).tokens.size();
    }
    CHECK(preempted_at == points);
    CHECK(w.client(2).tokens == expected);
    CHECK(w.client(2).end.completion_tokens == 400);
    CHECK(w.client(2).end.preemptions == points.size());
    w.cancel(1);
    w.run();
    w.require_whole();
  }
}

TEST_CASE("scheduler: a scored prompt gives each score once, preempted or not", "[core]") {
  auto limits = pool_of(16);
  limits.max_num_batched_tokens = 16;
  scheduler_world w(limits);
  auto s = make_submit(2, 100, 60);
  s.score_prompt = true;
  s.decode.top_logprobs = 0;
  w.send(s);
  w.settle_allocator();
  for (int i = 0; i < 3; ++i) {
    w.finish_step();
    w.settle_allocator();
  }
  auto rival = make_submit(3, 100, 100);
  rival.priority = -1;
  w.send(rival);
  w.run();
  CHECK(w.client(2).end.preemptions >= 1);
  CHECK(w.client(2).scores == std::vector<token_id>(s.prompt.begin() + 1, s.prompt.end()));
  CHECK(w.client(2).tokens == alone(s));
  w.require_whole();
}

TEST_CASE("scheduler: a prompt preempted amid its scores asks only for those not yet sent",
          "[core]") {
  auto limits = pool_of(64);
  limits.max_num_batched_tokens = 16;
  scheduler_world w(limits);
  auto s = make_submit(2, 100, 5);
  s.score_prompt = true;
  w.send(s);
  w.settle_allocator();
  for (int i = 0; i < 3; ++i) {
    w.finish_step();
    w.settle_allocator();
  }
  // The rival ranks first and has no place for its second token; chunks are one shorter while it
  // decodes.
  w.deny = [&](const reserve& r) {
    return r.lease.request.value == 3 && r.count == 1 && w.preemptions == 0;
  };
  auto rival = make_submit(3, 95, 100);
  rival.priority = -1;
  w.send(rival);
  w.run();
  CHECK(w.client(2).end.preemptions == 1);
  CHECK(w.client(2).scores == std::vector<token_id>(s.prompt.begin() + 1, s.prompt.end()));
  w.require_whole();
}

TEST_CASE("scheduler: an admission leaves one block free for each running request", "[core]") {
  scheduler_world w(pool_of(64));
  for (std::uint64_t id = 1; id <= 3; ++id) {
    w.send(make_submit(id, 20, 10));
    if (id < 3) w.settle_allocator();
  }
  REQUIRE(w.sent<reserve>().size() == 1);
  CHECK(w.sent<reserve>()[0].count == 2);
  CHECK(w.sent<reserve>()[0].keep_free == 2);
}

TEST_CASE("scheduler: max_tokens 0 scores the prompt in chunks and samples nothing", "[core]") {
  auto limits = pool_of(16);
  limits.max_num_batched_tokens = 16;
  scheduler_world w(limits);
  auto s = make_submit(1, 50, 0);
  s.score_prompt = true;
  w.send(s);
  w.run();
  CHECK(w.client(1).scores == std::vector<token_id>(s.prompt.begin() + 1, s.prompt.end()));
  CHECK(w.client(1).tokens.empty());
  CHECK(w.client(1).end.why == end_reason::length);
  w.require_whole();
}
