// A lease that begins with another's blocks: what is shared, what is kept for a copy, what goes
// back when.
#include <catch2/catch.hpp>

#include "actors/core/blocks/block_ledger.hpp"

using namespace troupe;
using namespace troupe::core;

namespace {

constexpr lease_id parent{request_id{1}, 1}, child{request_id{2}, 1}, other{request_id{3}, 1};

block_ledger ledger_of(std::uint32_t blocks, bool caching = true) {
  return block_ledger({blocks, 2, caching});
}

}  // namespace

TEST_CASE("ledger: a fork shares full blocks, gets one of its own and keeps the one to copy",
          "[core]") {
  auto l = ledger_of(6, false);
  const auto held = l.reserve({parent, 3, 0, std::nullopt})->blocks;
  const auto got = l.fork({parent, child, 1, true, 0});
  REQUIRE(got);
  REQUIRE(got->blocks.size() == 2);
  CHECK(got->blocks[0] == held[0]);
  CHECK(got->sources == std::vector<block_id>{held[1]});
  CHECK(got->cached == 0);
  CHECK(l.counts().leased == 4);
  CHECK(l.census()[held[0]].holders.size() == 2);
  CHECK(l.census()[held[1]].copied_by == std::vector<lease_id>{child});
  CHECK(l.check().empty());

  // The parent goes: what the child shares and what it is to copy stay.
  CHECK(l.release({parent, end_reason::length, false, true}).usable == 1);
  CHECK(l.counts().leased == 3);
  CHECK(l.drop_source(child) == 1u);
  CHECK_FALSE(l.drop_source(child));
  CHECK(l.counts().leased == 2);
  CHECK(l.release({child, end_reason::length, false, false}).usable == 2);
  CHECK(l.counts().free == 6);
  CHECK(l.counts().allocated_total == l.counts().released_total);
  CHECK(l.check().empty());
}

TEST_CASE("ledger: a fork released before its copy gives the source back too", "[core]") {
  auto l = ledger_of(4, false);
  REQUIRE(l.reserve({parent, 2, 0, std::nullopt}));
  REQUIRE(l.fork({parent, child, 1, true, 0}));
  CHECK(l.release({parent, end_reason::length, false, false}).usable == 0);
  const auto back = l.release({child, end_reason::cancelled, true, false});
  CHECK(back.held == 2);  // the block it was to copy was the parent's
  CHECK(back.usable == 3);
  CHECK(l.counts().free == 4);
}

TEST_CASE("ledger: a fork that cannot be changes nothing", "[core]") {
  auto l = ledger_of(4, false);
  REQUIRE(l.reserve({parent, 2, 0, std::nullopt}));
  REQUIRE(l.reserve({other, 1, 0, std::nullopt}));
  const auto before = l;
  CHECK_FALSE(l.fork({parent, child, 1, true, 1}));   // one is free, one must stay so
  CHECK_FALSE(l.fork({parent, child, 2, true, 0}));   // no third block to copy
  CHECK_FALSE(l.fork({parent, child, 3, false, 0}));  // no third block to share
  CHECK_FALSE(l.fork({child, other, 0, false, 0}));   // no such parent
  CHECK_FALSE(l.fork({parent, other, 1, false, 0}));  // not a new lease
  CHECK(l == before);
  CHECK(l.fork({parent, child, 2, false, 0}));
}

TEST_CASE("ledger: what a fork computes can be found behind what it shares", "[core]") {
  auto l = ledger_of(8);
  REQUIRE(l.reserve({parent, 2, 0, prefix_query{{}, {}}}));
  REQUIRE(l.publish({parent, 0, {1, 2}}));
  const auto got = l.fork({parent, child, 1, true, 0});
  REQUIRE(got);
  CHECK(got->cached == 1);
  REQUIRE(l.publish({child, 1, {3, 4}}));
  REQUIRE(l.publish({parent, 1, {3, 5}}));
  const auto hit = l.reserve({other, 3, 0, prefix_query{{}, {1, 2, 3, 4, 9}}});
  REQUIRE(hit);
  CHECK(hit->cached == 2);
  CHECK(hit->blocks[1] == got->blocks[1]);
  // A source that others can find stays cached.
  CHECK(l.release({parent, end_reason::length, false, false}).usable == 0);
  CHECK(l.drop_source(child) == 1u);
  CHECK(l.counts().cached == 1);
  CHECK(l.check().empty());
}

TEST_CASE("ledger: the last of a client's answers takes the prompt out of the cache", "[core]") {
  auto l = ledger_of(8);
  REQUIRE(l.reserve({parent, 2, 0, prefix_query{{}, {}}}));
  REQUIRE(l.publish({parent, 0, {1, 2}}));
  REQUIRE(l.fork({parent, child, 1, false, 0}));
  l.release({parent, end_reason::client_gone, false, true});
  CHECK(l.counts().cached == 0);  // the child has it
  l.release({child, end_reason::client_gone, false, true});
  CHECK(l.counts().cached == 0);
  CHECK(l.counts().free == 8);
}

TEST_CASE("ledger: an audit finds the source block of a fork that no one knows", "[core]") {
  auto l = ledger_of(6, false);
  REQUIRE(l.reserve({parent, 2, 0, std::nullopt}));
  REQUIRE(l.fork({parent, child, 1, true, 0}));
  l.release({parent, end_reason::length, false, false});
  CHECK(l.quarantine_unknown({}) == 3);
  CHECK(l.counts().quarantined == 3);
  CHECK(l.check().empty());
}
