// What the ledgers answer to those who only ask: each case stands for planted faults
// (tests/sim/mutants) that all others let pass.
#include <catch2/catch.hpp>

#include "actors/core/blocks/block_ledger.hpp"
#include "tests/actors/core/blocks/move_bench.hpp"

using namespace troupe::core;
using namespace troupe::core::testing;

TEST_CASE(
    "block_ledger: it knows how much a lease holds, and which leases the scheduler does not know",
    "[core]") {
  block_ledger ledger({10, 4, true});
  REQUIRE(ledger.reserve({lease(1), 3, 0, std::nullopt}));
  REQUIRE(ledger.reserve({lease(2), 2, 0, std::nullopt}));
  CHECK(ledger.held_by(lease(1)) == 3);
  CHECK(ledger.held_by(lease(2)) == 2);
  CHECK(ledger.held_by(lease(3)) == 0);
  CHECK(ledger.unknown({lease(1), lease(2)}).empty());
  CHECK(ledger.unknown({lease(2)}) == std::vector<lease_id>{lease(1)});
  CHECK(ledger.unknown({}) == std::vector<lease_id>{lease(1), lease(2)});
}

TEST_CASE("move_ledger: its census says how far each copy is and what moves", "[core]") {
  move_ledger ledger(10);
  REQUIRE(ledger.begin_out(out(1, lease(1), 0, 2, 4)).outcome == move_outcome::ok);
  auto lines = ledger.census();
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].lease == lease(1));
  CHECK(lines[0].slots == 4);
  CHECK(lines[0].filled == 0);
  CHECK(lines[0].moving == 2);
  CHECK(lines[0].move == move_id{1});
  CHECK(lines[0].out);
  REQUIRE(ledger.end_out(move_id{1}, true, sums(5, 2)));
  lines = ledger.census();
  CHECK(lines[0].filled == 2);
  CHECK(lines[0].moving == 0);
  CHECK_FALSE(lines[0].move);
  REQUIRE(ledger.begin_out(out(2, lease(2), 0, 3, 3)).outcome == move_outcome::ok);
  REQUIRE(ledger.begin_in(in(3, lease(1), 1, 1)).outcome == move_outcome::ok);
  lines = ledger.census();
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].moving == 1);
  CHECK_FALSE(lines[0].out);
  CHECK(lines[1].moving == 3);
  CHECK(ledger.under_way(move_id{3}));
  CHECK_FALSE(ledger.under_way(move_id{1}));
  CHECK_FALSE(ledger.under_way(move_id{}));
}
