// What a constraint allows behind each answer, and that a request's constraint follows its answer
// through steps and preemption.
#include "actors/core/token_constraint.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/actors/core/machine_alone.hpp"

using namespace troupe;
using namespace troupe::core;
using namespace troupe::core::testing;
using tokens = std::vector<token_id>;

namespace {

token_constraint behind(token_constraint x, const tokens& answer) {
  for (const auto token : answer) x.advance(token);
  return x;
}

tokens forbidden(const token_constraint& x, const tokens& answer = {}) {
  return behind(x, answer).mask().forbidden;
}

}  // namespace

TEST_CASE("token_constraint: none allows everything", "[core]") {
  CHECK(token_constraint().mask() == token_mask{});
  CHECK(compile({}) == token_constraint());
  CHECK(compile({{}, {{}, {}}}) == token_constraint());
  CHECK(behind({}, {1, 2}) == token_constraint());
}

TEST_CASE("token_constraint: allowed tokens are a set, whatever the answer", "[core]") {
  const auto x = compile({{130, 0, 63, 130}, {}});
  for (const auto& answer : {tokens{}, tokens{5}, tokens{0, 63, 130}}) {
    const auto mask = behind(x, answer).mask();
    for (token_id t = 0; t < 400; ++t) CHECK(mask.allows(t) == (t == 0 || t == 63 || t == 130));
  }
  CHECK(x.mask().allowed.shares_with(behind(x, {1}).mask().allowed));  // made once
}

TEST_CASE("token_constraint: a word of one token is forbidden everywhere", "[core]") {
  const auto x = compile({{}, {{7}, {}, {3}, {7}}});
  CHECK(forbidden(x) == tokens{3, 7});
  CHECK(forbidden(x, {3, 7, 1}) == tokens{3, 7});
}

TEST_CASE("token_constraint: a longer word is forbidden by its last token behind all the others",
          "[core]") {
  const auto x = compile({{}, {{1, 2, 3}, {2, 4}, {1, 1, 5}}});
  CHECK(forbidden(x).empty());
  CHECK(forbidden(x, {1}).empty());
  CHECK(forbidden(x, {2}) == tokens{4});
  CHECK(forbidden(x, {1, 2}) == tokens{3, 4});
  CHECK(forbidden(x, {9, 9, 9, 1, 2}) == tokens{3, 4});
  CHECK(forbidden(x, {1, 2, 9}).empty());
  CHECK(forbidden(x, {1, 1}) == tokens{5});
  CHECK(forbidden(x, {1, 1, 1}) == tokens{5});  // the prefix may overlap itself
}

TEST_CASE("token_constraint: both rules hold together, and equal answers are equal states",
          "[core]") {
  const auto x = compile({{1, 2, 3}, {{1, 2}}});
  const auto mask = behind(x, {1}).mask();
  CHECK_FALSE(mask.allows(2));
  CHECK(mask.allows(3));
  CHECK_FALSE(mask.allows(4));
  const auto digest = [](const token_constraint& c) {
    state_hash h;
    c.add_to(h);
    return h.digest();
  };
  CHECK(behind(x, {3, 1}) == behind(x, {2, 1}));
  CHECK(digest(behind(x, {3, 1})) == digest(behind(x, {2, 1})));
  CHECK_FALSE(behind(x, {1}) == behind(x, {2}));
  CHECK(digest(behind(x, {1})) != digest(behind(x, {2})));
}

TEST_CASE("scheduler: a step that samples takes the constraint's mask behind the answer so far",
          "[core]") {
  machine_alone a(roomy_limits());
  auto s = make_submit(1, 3, 50);
  s.constraint = compile({{5, 6, 8}, {{5, 6}, {8}}});
  s.decode.min_tokens = 2;
  s.decode.stop_token_ids = {6};
  s.decode.ignore_eos = true;
  start_one(a, s);
  REQUIRE(a.plan.items.size() == 1);
  CHECK(a.plan.items[0].allowed == s.constraint.mask().allowed);
  CHECK(a.plan.items[0].suppressed == tokens{6, 8});  // by min_tokens, by the constraint
  a.step();                                           // draws 5
  CHECK(a.plan.items[0].suppressed == tokens{6, 6, 8});
  a.step();                                           // 5 again
  CHECK(a.plan.items[0].suppressed == tokens{6, 8});  // min_tokens is over
  CHECK(a.plan.items[0].allowed == s.constraint.mask().allowed);
}

TEST_CASE("scheduler: a prompt's chunk that samples nothing carries no mask", "[core]") {
  auto limits = roomy_limits();
  limits.max_num_batched_tokens = 2;
  machine_alone a(limits);
  auto s = make_submit(1, 3, 50);
  s.constraint = compile({{5}, {{6}}});
  start_one(a, s);
  REQUIRE_FALSE(a.plan.items.at(0).sample);
  CHECK(a.plan.items[0].allowed.empty());
  CHECK(a.plan.items[0].suppressed.empty());
}

TEST_CASE("scheduler: a constraint that leaves no token ends its request by name, and nobody else",
          "[core]") {
  machine_alone a(roomy_limits());
  start_one(a, make_submit(1, 3, 50));
  a.step();
  start_one(a, make_submit(2, 3, 50));
  a.step();
  REQUIRE(a.plan.items.size() == 2);
  step_done done{a.plan.step, {token_for(1, 5), {}}, 10};
  done.items[1].request = request_id{2};
  done.items[1].nothing_allowed = true;
  a.send(done);
  const auto ends = a.sent<ended>();
  REQUIRE(ends.size() == 1);
  CHECK(ends[0].request == request_id{2});
  CHECK(ends[0].why == end_reason::no_token_allowed);
  CHECK(ends[0].message.find("'allowed_token_ids', 'bad_words'") != std::string::npos);
  CHECK(a.sent<release>().size() == 1);
  CHECK(a.plan.items.size() == 1);
}

TEST_CASE("scheduler: behind a preemption the constraint is where the answer is", "[core]") {
  auto limits = roomy_limits();
  limits.block_size = 4;
  limits.max_num_seqs = 2;
  machine_alone a(limits);
  auto s = make_submit(2, 3, 50);
  s.constraint = compile({{}, {{5, 5, 9}}});
  const auto grant_asked = [&] {
    std::vector<granted> answers;
    for (const auto& ask : a.sent<reserve>()) {
      granted g{ask.lease, {}, 0};
      for (std::uint32_t i = 0; i < ask.count; ++i)
        g.blocks.push_back(static_cast<block_id>(100 * ask.lease.request.value + i));
      answers.push_back(std::move(g));
    }
    return answers;
  };
  const auto mine = [&]() -> const plan_item* {
    for (const auto& item : a.plan.items)
      if (item.request == request_id{2}) return &item;
    return nullptr;
  };
  // The first is granted whatever it asks for; the second's growth is denied until it is preempted.
  a.send(make_submit(1, 3, 50));
  bool preempted_once = false, masked_before = false, masked_behind = false;
  std::vector<granted> open = grant_asked();
  a.send(s);
  for (const auto& g : grant_asked()) open.push_back(g);
  for (int round = 0; round < 60 && !masked_behind; ++round) {
    if (!open.empty()) {
      const auto g = open.front();
      open.erase(open.begin());
      const bool growth = g.lease.request == request_id{2} && masked_before && !preempted_once;
      if (growth)
        a.send(denied{g.lease});
      else
        a.send(g);
    } else {
      a.step();
    }
    for (const auto& p : a.sent<preempted>()) {
      preempted_once = preempted_once || p.request == request_id{2};
      a.send(released{{request_id{2}, 1}, 2});
    }
    for (const auto& g : grant_asked()) open.push_back(g);
    if (const auto* item = mine(); item && item->sample && item->suppressed == tokens{9})
      (preempted_once ? masked_behind : masked_before) = true;
  }
  CHECK(masked_before);
  CHECK(preempted_once);
  CHECK(masked_behind);
}
