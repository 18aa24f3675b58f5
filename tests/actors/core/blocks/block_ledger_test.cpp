#include "actors/core/blocks/block_ledger.hpp"

#include <catch2/catch.hpp>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

using namespace troupe;
using namespace troupe::core;

// Block size 16 throughout.
namespace {

using tokens = std::vector<token_id>;

lease_id lease(std::uint64_t request) {
  return {request_id{request}, 1};
}

// Tokens first, first + 1, ...
tokens run(std::size_t count, token_id first = 1000) {
  tokens out(count);
  std::iota(out.begin(), out.end(), first);
  return out;
}

core::reserve ask(std::uint64_t request, std::uint32_t count, const tokens& prompt,
                  cache_scope scope = {}) {
  return {lease(request), count, 0, prefix_query{std::move(scope), prompt}};
}

core::reserve ask(std::uint64_t request, std::uint32_t count, std::uint32_t keep_free = 0) {
  return {lease(request), count, keep_free, std::nullopt};
}

core::release gone(std::uint64_t request, bool forget = false) {
  return {lease(request), end_reason::length, false, forget};
}

/// Request `request` computes the whole blocks of `prompt` and leaves; how many of them it found.
std::uint32_t serve(block_ledger& ledger, std::uint64_t request, const tokens& prompt,
                    cache_scope scope = {}) {
  const auto blocks = static_cast<std::uint32_t>(prompt.size() / 16 + 1);
  const auto got = ledger.reserve(ask(request, blocks, prompt, std::move(scope)));
  REQUIRE(got);
  const auto whole = prompt.begin() + static_cast<std::ptrdiff_t>(prompt.size() / 16 * 16);
  REQUIRE(ledger.publish(
      {lease(request), got->cached, tokens(prompt.begin() + got->cached * 16, whole)}));
  ledger.release(gone(request));
  REQUIRE(ledger.check().empty());
  return got->cached;
}

block_ledger pool(std::uint32_t blocks, bool prefix_caching = true) {
  return block_ledger({blocks, 16, prefix_caching});
}

state_digest digest_of(const block_ledger& x) {
  state_hash h;
  x.add_to(h);
  return h.digest();
}

}  // namespace

TEST_CASE("block_ledger: a reservation that would cut into keep_free changes nothing", "[core]") {
  auto l = pool(10);
  const auto before = l;
  CHECK_FALSE(l.reserve(ask(1, 8, 3)));
  CHECK(l == before);
  CHECK(l.reserve(ask(1, 7, 3)));
  CHECK(l.counts().free == 3);
  CHECK_FALSE(l.reserve(ask(2, 4294967295u, 4294967295u)));
}

TEST_CASE("block_ledger: a cached block counts as room unless the same ask found it", "[core]") {
  auto l = pool(4);
  serve(l, 1, run(49));
  REQUIRE(l.counts().cached == 3);
  const auto before = l;
  auto all = ask(2, 4, run(49));
  all.keep_free = 1;
  CHECK_FALSE(l.reserve(all));
  CHECK(l == before);
  all.keep_free = 0;
  CHECK(l.reserve(all)->cached == 3);
  CHECK(l.counts().leased == 4);
}

TEST_CASE("block_ledger: releasing a lease twice gives back nothing the second time", "[core]") {
  auto l = pool(4);
  REQUIRE(l.reserve(ask(1, 3)));
  REQUIRE(l.reserve(ask(1, 1)));
  CHECK(l.release(gone(1)) == block_ledger::give_back{4, 4});
  CHECK(l.release(gone(1)) == block_ledger::give_back{});
  CHECK(l.counts().empty_releases == 1);
  CHECK(l.counts().free == 4);
}

TEST_CASE("block_ledger: the block freed last is used first", "[core]") {
  auto l = pool(8);
  const auto a = *l.reserve(ask(1, 2));
  REQUIRE(l.reserve(ask(2, 2)));
  l.release(gone(1));
  CHECK(*l.reserve(ask(3, 2)) == a);
}

TEST_CASE("block_ledger: blocks of a lease that the scheduler does not know stay in quarantine",
          "[core]") {
  auto l = pool(4);
  REQUIRE(l.reserve(ask(1, 2)));
  REQUIRE(l.reserve(ask(2, 1)));
  CHECK(l.quarantine_unknown({lease(2)}) == 2);
  CHECK(l.quarantine_unknown({lease(2)}) == 0);
  CHECK(l.release(gone(1)) == block_ledger::give_back{});
  CHECK(l.counts().quarantined == 2);
  CHECK(l.counts().free == 1);
  CHECK_FALSE(digest_of(l) == digest_of(pool(4)));
}

TEST_CASE("block_ledger: a leaked lease withholds only the blocks that it alone held", "[core]") {
  auto l = pool(8);
  serve(l, 1, run(33));
  REQUIRE(l.reserve(ask(2, 4, run(33)))->cached == 2);
  REQUIRE(l.publish({lease(2), 2, run(16, 1032)}));
  REQUIRE(l.reserve(ask(3, 4, run(33)))->cached == 2);
  CHECK(l.quarantine_unknown({lease(3)}) ==
        2);  // request 2 leaked: one published block, one empty one
  CHECK(l.check().empty());
  CHECK(l.release(gone(3)) == block_ledger::give_back{4, 4});
  CHECK(l.reserve(ask(4, 4, run(60)))->cached == 2);  // not the third: it is in quarantine
  CHECK(l.counts().quarantined == 2);
  CHECK(l.check().empty());
}

TEST_CASE("block_ledger: hits stop at (tokens - 1) / block size and at the blocks reserved",
          "[core]") {
  auto l = pool(32);
  serve(l, 1, run(160));
  std::uint64_t next = 2;
  for (const auto& [length, hits] : std::vector<std::pair<std::size_t, std::uint32_t>>{{0, 0},
                                                                                       {1, 0},
                                                                                       {15, 0},
                                                                                       {16, 0},
                                                                                       {17, 1},
                                                                                       {32, 1},
                                                                                       {33, 2},
                                                                                       {160, 9},
                                                                                       {161, 10},
                                                                                       {200, 10}}) {
    INFO(length << " tokens");
    CHECK(l.reserve(ask(next, 12, run(length)))->cached == hits);
    l.release(gone(next++));
  }
  CHECK(l.reserve(ask(next, 3, run(161)))->cached == 3);
}

TEST_CASE(
    "block_ledger: C149 only whole equal blocks are found: 16, 16, 16 and 32 tokens of 20, 17, 31 "
    "and 33",
    "[core]") {
  for (const auto& [equal, hits] :
       std::vector<std::pair<std::size_t, std::uint32_t>>{{20, 1}, {17, 1}, {31, 1}, {33, 2}}) {
    INFO(equal << " equal tokens");
    auto l = pool(16);
    serve(l, 1, run(64));
    auto other = run(64);
    for (auto i = equal; i < other.size(); ++i) other[i] += 7000;
    CHECK(l.reserve(ask(2, 5, other))->cached == hits);
  }
}

TEST_CASE("block_ledger: C145 no salt, an empty salt and every other salt share nothing",
          "[core]") {
  auto l = pool(32);
  const std::vector<cache_scope> scopes{{}, {""}, {"a"}, {"b"}, {std::string(1, '\0')}};
  std::uint64_t next = 1;
  for (const auto& scope : scopes) CHECK(serve(l, next++, run(33), scope) == 0);
  for (const auto& scope : scopes) CHECK(serve(l, next++, run(33), scope) == 2);
  CHECK(l.counts().cached == 10);
}

TEST_CASE("block_ledger: C140 a block is found by the tokens that were computed into it, none else",
          "[core]") {
  auto l = pool(16);
  const auto prompt = run(15);
  auto with_x = prompt, with_y = prompt;
  with_x.push_back(7);
  with_y.push_back(8);
  // A sampled X; the continuation put Y at its place, and that is what was computed.
  REQUIRE(l.reserve(ask(1, 2, prompt))->cached == 0);
  REQUIRE(l.publish({lease(1), 0, with_y}));
  l.release(gone(1));
  with_x.push_back(1);
  with_y.push_back(1);
  CHECK(l.reserve(ask(2, 2, with_x))->cached == 0);
  CHECK(l.reserve(ask(3, 2, with_y))->cached == 1);
}

TEST_CASE(
    "block_ledger: C142 a block evicted and handed out again is found by its new tokens alone",
    "[core]") {
  auto l = pool(9);  // three prompts of two whole blocks and one more
  const auto a = run(33), b = run(33, 2000), c = run(33, 3000), d = run(33, 4000);
  serve(l, 1, a);
  serve(l, 2, b);
  serve(l, 3, c);
  REQUIRE(l.counts().cached == 6);
  REQUIRE(l.reserve(ask(4, 3)));  // somebody takes what is free
  CHECK(serve(l, 5, d) == 0);     // takes the place of A's two blocks and of B's last
  CHECK(l.counts().evicted_total == 3);
  CHECK(serve(l, 6, d) == 2);
  CHECK(l.reserve(ask(7, 0, a)));
  CHECK(l.reserve(ask(8, 2, a))->cached == 0);
  CHECK(l.check().empty());
}

TEST_CASE(
    "block_ledger: C143 after total eviction the old prefix is not found, in each of five passes",
    "[core]") {
  auto l = pool(8);
  for (std::uint64_t pass = 0; pass < 5; ++pass) {
    CHECK(serve(l, pass * 10 + 1, run(65)) == 0);
    CHECK(serve(l, pass * 10 + 2, run(65)) == 4);
    REQUIRE(l.reserve(ask(pass * 10 + 3, 8)));
    CHECK(l.counts().cached == 0);
    l.release(gone(pass * 10 + 3));
    CHECK(l.counts().evicted_total == 4 * (pass + 1));
  }
}

TEST_CASE("block_ledger: eviction takes the end of a chain first, and the chain used longest ago",
          "[core]") {
  auto l = pool(7);
  serve(l, 1, run(49));
  serve(l, 2, run(49, 5000));
  serve(l, 3, run(49));  // used again: the second is the older one now
  REQUIRE(l.counts().cached == 6);
  REQUIRE(l.reserve(ask(4, 2)));
  l.release(gone(4));
  CHECK(l.reserve(ask(5, 3, run(49, 5000)))->cached == 2);
  l.release(gone(5));
  CHECK(l.reserve(ask(6, 3, run(49)))->cached == 3);
}

TEST_CASE(
    "block_ledger: equal prompts that run together never share a block that was not computed "
    "before",
    "[core]") {
  auto l = pool(16);
  const auto first = *l.reserve(ask(1, 3, run(40)));
  const auto second = *l.reserve(ask(2, 3, run(40)));
  CHECK(second.cached == 0);
  REQUIRE(l.publish({lease(1), 0, run(32)}));
  REQUIRE(l.publish(
      {lease(2), 0, run(32)}));  // the same once more: the first stays the one that is found
  const auto third = *l.reserve(ask(3, 3, run(40)));
  REQUIRE(third.cached == 2);
  CHECK(third.blocks[0] == first.blocks[0]);
  CHECK(third.blocks[1] == first.blocks[1]);
  std::set<block_id> distinct(first.blocks.begin(), first.blocks.end());
  distinct.insert(second.blocks.begin(), second.blocks.end());
  distinct.insert(third.blocks.begin(), third.blocks.end());
  CHECK(distinct.size() == 7);
  l.release(gone(1));
  CHECK(l.release(gone(2)) == block_ledger::give_back{3, 3});
  CHECK(l.counts().cached == 0);  // request 3 holds them still
  CHECK(l.release(gone(3)) == block_ledger::give_back{3, 3});
  CHECK(l.counts().cached == 2);
}

TEST_CASE(
    "block_ledger: forget takes what the lease alone brought and leaves what others use or built "
    "on",
    "[core]") {
  auto l = pool(16);
  SECTION("nobody else") {
    REQUIRE(l.reserve(ask(1, 3, run(40)))->cached == 0);
    REQUIRE(l.publish({lease(1), 0, run(32)}));
    l.release(gone(1, true));
    CHECK(l.counts().free == 16);
    CHECK(l.counts().evicted_total == 0);
  }
  SECTION("what it found stays") {
    serve(l, 1, run(33));
    REQUIRE(l.reserve(ask(2, 4, run(64)))->cached == 2);
    REQUIRE(l.publish({lease(2), 2, run(16, 1032)}));
    l.release(gone(2, true));
    CHECK(l.reserve(ask(3, 4, run(64)))->cached == 2);
  }
  SECTION("another uses it") {
    REQUIRE(l.reserve(ask(1, 3, run(40)))->cached == 0);
    REQUIRE(l.publish({lease(1), 0, run(32)}));
    REQUIRE(l.reserve(ask(2, 3, run(20)))->cached == 1);
    l.release(gone(1, true));
    CHECK(l.counts().leased == 3);
    CHECK(l.reserve(ask(3, 3, run(40)))->cached == 1);
  }
  SECTION("another, gone since, built on it") {
    REQUIRE(l.reserve(ask(1, 3, run(40)))->cached == 0);
    REQUIRE(l.publish({lease(1), 0, run(32)}));
    CHECK(serve(l, 2, run(65)) == 2);
    l.release(gone(1, true));
    CHECK(l.reserve(ask(3, 5, run(65)))->cached == 4);
  }
  CHECK(l.check().empty());
}

TEST_CASE("block_ledger: what follows a chain that left the cache is computed and never found",
          "[core]") {
  auto l = pool(6);
  REQUIRE(l.reserve(ask(1, 2, run(40)))->cached == 0);
  REQUIRE(l.publish({lease(1), 0, run(16)}));
  REQUIRE(l.reserve(ask(2, 3, run(48)))->cached == 1);
  REQUIRE(l.reserve(ask(3, 2, run(48)))->cached == 1);  // a third user, with its own second block
  REQUIRE(l.publish({lease(2), 1, run(16, 1016)}));
  REQUIRE(l.publish({lease(3), 1, run(16, 1016)}));  // known already
  for (const auto n : {1, 2}) l.release(gone(static_cast<std::uint64_t>(n), n == 2));
  REQUIRE(l.reserve(ask(3, 1)));
  CHECK(l.publish({lease(3), 2, run(16, 1032)}));  // its place went with request 2's block
  CHECK_FALSE(l.publish({lease(3), 2, run(16, 1032)}));
  l.release(gone(3));
  CHECK(l.reserve(ask(4, 4, run(64)))->cached == 1);
  CHECK(l.check().empty());
}

TEST_CASE("block_ledger: without prefix caching nothing is ever found", "[core]") {
  auto l = pool(8, false);
  CHECK(serve(l, 1, run(49)) == 0);
  CHECK(serve(l, 2, run(49)) == 0);
  CHECK(l.counts().free == 8);
}
