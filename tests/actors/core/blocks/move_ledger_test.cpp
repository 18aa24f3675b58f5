#include "actors/core/blocks/move_ledger.hpp"

#include <algorithm>
#include <catch2/catch.hpp>

#include "tests/actors/core/blocks/move_bench.hpp"

using namespace troupe::core;
using namespace troupe::core::testing;

namespace {

state_digest digest_of(const move_ledger& x) {
  state_hash h;
  x.add_to(h);
  return h.digest();
}

}  // namespace

TEST_CASE(
    "move_ledger: a copy goes out in chunks and comes back in others, with its checksums in order",
    "[core]") {
  move_ledger l(8);
  const auto a = l.begin_out(out(1, lease(1), 0, 3, 5));
  REQUIRE(a.outcome == move_outcome::ok);
  CHECK(l.counts().used == 5);
  CHECK(l.counts().filled == 0);
  REQUIRE(l.end_out(move_id{1}, true, {10, 11, 12}));
  const auto b = l.begin_out(out(2, lease(1), 3, 2, 5));
  REQUIRE(b.outcome == move_outcome::ok);
  REQUIRE(l.end_out(move_id{2}, true, {13, 14}));
  CHECK(l.counts().filled == 5);

  const auto back = l.begin_in(in(3, lease(1), 2, 3));
  REQUIRE(back.outcome == move_outcome::ok);
  CHECK(back.slots == std::vector<host_slot>{a.slots[2], b.slots[0], b.slots[1]});
  CHECK(back.checksums == std::vector<std::uint64_t>{12, 13, 14});
  REQUIRE(l.end_in(move_id{3}));
  CHECK(l.counts().used == 5);
  CHECK(l.drop(lease(1)) == 5);
  CHECK(l.counts().used == 0);
}

TEST_CASE("move_ledger: a copy that does not fit as a whole changes nothing", "[core]") {
  move_ledger l(8);
  REQUIRE(l.begin_out(out(1, lease(1), 0, 1, 5)).outcome == move_outcome::ok);
  const auto before = l;
  CHECK(l.begin_out(out(2, lease(2), 0, 1, 4)).outcome == move_outcome::host_full);
  CHECK(l == before);
  CHECK(digest_of(l) == digest_of(before));
  CHECK(l.begin_out(out(2, lease(2), 0, 1, 3)).outcome == move_outcome::ok);
  CHECK(l.begin_out(out(3, lease(3), 0, 1, 4294967295u)).outcome == move_outcome::host_full);
}

TEST_CASE(
    "move_ledger: a message that breaks its contract is answered with what it broke and changes "
    "nothing",
    "[core]") {
  move_ledger l(16);
  REQUIRE(l.begin_out(out(1, lease(1), 0, 2, 4)).outcome == move_outcome::ok);
  REQUIRE(l.begin_out(out(2, lease(2), 0, 2, 4)).outcome == move_outcome::ok);
  REQUIRE(l.end_out(move_id{2}, true, {1, 2}));
  const auto before = l;
  const auto refused = [&](const move_start& got) {
    CHECK(got.outcome == move_outcome::failed);
    CHECK(got.slots.empty());
    CHECK(l == before);
    return got.violation;
  };
  using Catch::Matchers::Contains;
  CHECK_THAT(refused(l.begin_out(out(3, lease(1), 2, 2, 4))),
             Contains("move out 3 of lease 1.1: move 1 is under way"));
  CHECK_THAT(refused(l.begin_in(in(3, lease(1), 0, 1))), Contains("move 1 is under way"));
  CHECK_THAT(refused(l.begin_out(out(1, lease(3), 0, 1, 1))), Contains("number is under way"));
  CHECK_THAT(refused(l.begin_out(out(0, lease(3), 0, 1, 1))), Contains("no number"));
  CHECK_THAT(refused(l.begin_out(out(3, lease(3), 0, 0, 1))), Contains("names no block"));
  CHECK_THAT(refused(l.begin_out(out(3, lease(2), 3, 1, 4))),
             Contains("begins at 3, 2 are filled"));
  CHECK_THAT(refused(l.begin_out(out(3, lease(2), 0, 2, 4))),
             Contains("begins at 0, 2 are filled"));
  CHECK_THAT(refused(l.begin_out(out(3, lease(2), 2, 2, 5))),
             Contains("total is 5, 4 are reserved"));
  CHECK_THAT(refused(l.begin_out(out(3, lease(2), 2, 3, 4))),
             Contains("blocks 2 to 4 are not among 4"));
  CHECK_THAT(refused(l.begin_out(out(3, lease(4), 2, 1, 4))), Contains("copy that is not here"));
  CHECK_THAT(refused(l.begin_out(out(3, lease(4), 4294967295u, 2, 4))),
             Contains("are not among 4"));
  CHECK_THAT(refused(l.begin_in(in(3, lease(2), 1, 2))),
             Contains("blocks 1 to 2 are asked for, 2 are filled"));
  CHECK_THAT(refused(l.begin_in(in(3, lease(2), 4294967295u, 1))), Contains("2 are filled"));
  CHECK(refused(l.begin_in(in(3, lease(4), 0, 1))).empty());  // gone since: normal
}

TEST_CASE("move_ledger: a failed chunk frees the whole copy at once", "[core]") {
  move_ledger l(8);
  REQUIRE(l.begin_out(out(1, lease(1), 0, 3, 8)).outcome == move_outcome::ok);
  REQUIRE(l.end_out(move_id{1}, true, {1, 2, 3}));
  REQUIRE(l.begin_out(out(2, lease(1), 3, 3, 8)).outcome == move_outcome::ok);
  REQUIRE(l.end_out(move_id{2}, false, {}));
  CHECK(l.counts().used == 0);
  CHECK(l.counts().copies == 0);
  CHECK(l.begin_out(out(3, lease(2), 0, 8, 8)).outcome == move_outcome::ok);
}

TEST_CASE(
    "move_ledger: the slots of a copy in flight belong to no other lease until it ends (C151)",
    "[core]") {
  for (const bool outwards : {true, false}) {
    move_ledger l(4);
    auto named = l.begin_out(out(1, lease(1), 0, 2, 2)).slots;
    if (!outwards) {
      REQUIRE(l.end_out(move_id{1}, true, {1, 2}));
      REQUIRE(l.begin_in(in(1, lease(1), 0, 2)).slots == named);
    }
    // Neither the end of its request nor an audit that misses it frees them.
    CHECK(l.drop(lease(1)) == 0);
    CHECK(l.drop_unknown({}) == 0);
    CHECK(l.counts().used == 2);
    CHECK(l.begin_out(out(2, lease(2), 0, 3, 3)).outcome == move_outcome::host_full);
    const auto other = l.begin_out(out(3, lease(3), 0, 2, 2));
    REQUIRE(other.outcome == move_outcome::ok);
    for (const auto slot : other.slots) CHECK(std::count(named.begin(), named.end(), slot) == 0);

    CHECK((outwards ? l.end_out(move_id{1}, true, {1, 2}) : l.end_in(move_id{1})));
    CHECK(l.counts().used == 2);
    CHECK(l.begin_out(out(4, lease(4), 0, 2, 2)).slots == named);
    CHECK(l.check() == "");
  }
}

TEST_CASE("move_ledger: late and repeated ends and drops are counted and free nothing twice (C154)",
          "[core]") {
  move_ledger l(4);
  REQUIRE(l.begin_out(out(1, lease(1), 0, 2, 2)).outcome == move_outcome::ok);
  REQUIRE(l.end_out(move_id{1}, true, {1, 2}));
  REQUIRE(l.begin_in(in(2, lease(1), 0, 2)).outcome == move_outcome::ok);
  CHECK_FALSE(l.end_out(move_id{1}, false, {}));  // the store again
  CHECK_FALSE(l.end_out(move_id{2}, false, {}));  // the load, taken for a store
  CHECK(l.end_in(move_id{2}));
  CHECK_FALSE(l.end_in(move_id{2}));
  CHECK_FALSE(l.end_in(move_id{0}));
  CHECK_FALSE(l.end_in(move_id{99}));
  CHECK(l.counts().used == 2);
  CHECK(l.counts().stale_ends == 5);
  CHECK(l.drop(lease(1)) == 2);
  CHECK(l.drop(lease(1)) == 0);
  CHECK_FALSE(l.end_out(move_id{1}, false, {}));
  CHECK(l.counts().freed_total == 2);
  CHECK(l.counts().unknown_drops == 1);
  CHECK(l.check() == "");
}

TEST_CASE("move_ledger: a copy abandoned between its lookup and its load pins nothing (C158)",
          "[core]") {
  move_ledger l(6);
  for (std::uint64_t i = 1; i <= 500; ++i) {
    const auto of = lease(i);
    REQUIRE(l.begin_out(out(2 * i, of, 0, 6, 6)).outcome == move_outcome::ok);
    REQUIRE(l.end_out(move_id{2 * i}, true, sums(i, 6)));
    REQUIRE(l.drop(of) == 6);
    REQUIRE(l.begin_in(in(2 * i + 1, of, 0, 6)).outcome == move_outcome::failed);
  }
  CHECK(l.counts().moving == 0);
  CHECK(l.begin_out(out(2000, lease(501), 0, 6, 6)).outcome == move_outcome::ok);
}

TEST_CASE("move_ledger: an audit drops copies that no request owns, and never one in flight",
          "[core]") {
  move_ledger l(9);
  for (std::uint64_t i = 1; i <= 3; ++i)
    REQUIRE(l.begin_out(out(i, lease(i), 0, 3, 3)).outcome == move_outcome::ok);
  REQUIRE(l.end_out(move_id{1}, true, {1, 2, 3}));
  REQUIRE(l.end_out(move_id{2}, true, {1, 2, 3}));
  CHECK(l.drop_unknown({lease(2), lease(7)}) == 3);
  CHECK(l.counts().copies == 2);
  REQUIRE(l.end_out(move_id{3}, true, {1, 2, 3}));
  CHECK(l.drop_unknown({lease(2), lease(7)}) == 3);
  CHECK(l.counts().used == 3);
}

TEST_CASE("move_ledger: the slots freed last are used first, in their order", "[core]") {
  move_ledger l(8);
  const auto a = l.begin_out(out(1, lease(1), 0, 3, 3)).slots;
  CHECK(a == std::vector<host_slot>{0, 1, 2});
  REQUIRE(l.begin_out(out(2, lease(2), 0, 3, 3)).outcome == move_outcome::ok);
  REQUIRE(l.end_out(move_id{1}, false, {}));
  CHECK(l.begin_out(out(3, lease(3), 0, 3, 3)).slots == a);
  CHECK_FALSE(digest_of(l) == digest_of(move_ledger(8)));
}
