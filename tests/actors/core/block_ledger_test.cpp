#include "actors/core/block_ledger.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <set>

using namespace troupe::core;

namespace {

lease_id lease(std::uint64_t request, std::uint32_t epoch = 1) {
  return {request_id{request}, epoch};
}

// The same rules with one map from block to holder, too plain to be wrong.
struct naive_ledger {
  enum : int { is_free = 0, is_quarantined = -1 };
  std::map<block_id, int> place;  // else the index of a lease
  std::map<lease_id, int> index;
  std::uint64_t allocated = 0, released = 0, empty = 0;

  explicit naive_ledger(std::uint32_t total) {
    for (block_id b = 0; b < total; ++b) place[b] = is_free;
  }
  std::uint32_t count(int where) const {
    return static_cast<std::uint32_t>(std::count_if(
        place.begin(), place.end(), [&](const auto& p) { return p.second == where; }));
  }
  int index_of(lease_id l) {
    return index.emplace(l, static_cast<int>(index.size()) + 1).first->second;
  }
  std::uint32_t move_all(int from, int to) {
    std::uint32_t n = 0;
    for (auto& [b, where] : place)
      if (where == from) where = to, ++n;
    return n;
  }
};

}  // namespace

TEST_CASE("block_ledger: random events agree with a naive model after each", "[core]") {
  std::uint64_t grants = 0, denials = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
    const std::uint32_t total = below(40);
    block_ledger real(total);
    naive_ledger naive(total);
    for (int i = 0; i < 400; ++i) {
      INFO("seed " << seed << " event " << i);
      const auto l = lease(1 + below(6), 1 + below(2));
      const auto what = below(20);
      if (what < 12) {
        const auto count = below(6), keep = below(4);
        const auto got = real.reserve(l, count, keep);
        REQUIRE(got.has_value() == (naive.count(naive.is_free) >= count + keep));
        if (got) {
          ++grants;
          REQUIRE(got->size() == count);
          for (const auto b : *got) {
            REQUIRE(naive.place.at(b) == naive.is_free);
            naive.place[b] = naive.index_of(l);
          }
          naive.allocated += count;
        } else {
          ++denials;
        }
      } else if (what < 19) {
        const auto n = naive.move_all(naive.index_of(l), naive.is_free);
        REQUIRE(real.release(l) == n);
        naive.released += n;
        naive.empty += n == 0 ? 1 : 0;
      } else if (below(4) == 0) {
        std::vector<lease_id> live;
        for (const auto& [known, index] : naive.index)
          if (below(5) > 0) live.push_back(known);
        std::uint32_t lost = 0;
        for (const auto& [known, index] : naive.index)
          if (!std::binary_search(live.begin(), live.end(), known))
            lost += naive.move_all(index, naive.is_quarantined);
        REQUIRE(real.quarantine_unknown(live) == lost);
      }
      REQUIRE(real.check().empty());
      const auto c = real.counts();
      REQUIRE(c.total == total);
      REQUIRE(c.free == naive.count(naive.is_free));
      REQUIRE(c.quarantined == naive.count(naive.is_quarantined));
      REQUIRE(c.leased == total - c.free - c.quarantined);
      REQUIRE(c.allocated_total == naive.allocated);
      REQUIRE(c.released_total == naive.released);
      REQUIRE(c.empty_releases == naive.empty);
    }
  }
  CHECK(grants > 1000);
  CHECK(denials > 1000);
}

TEST_CASE("block_ledger: a reservation that would cut into keep_free changes nothing", "[core]") {
  block_ledger l(10);
  const auto before = l;
  CHECK_FALSE(l.reserve(lease(1), 8, 3));
  CHECK(l == before);
  CHECK(l.reserve(lease(1), 7, 3));
  CHECK(l.counts().free == 3);
  CHECK_FALSE(l.reserve(lease(2), 4294967295u, 4294967295u));
}

TEST_CASE("block_ledger: releasing a lease twice gives back nothing the second time", "[core]") {
  block_ledger l(4);
  REQUIRE(l.reserve(lease(1), 3, 0));
  REQUIRE(l.reserve(lease(1), 1, 0));
  CHECK(l.release(lease(1)) == 4);
  CHECK(l.release(lease(1)) == 0);
  CHECK(l.counts().empty_releases == 1);
  CHECK(l.counts().free == 4);
}

TEST_CASE("block_ledger: the block freed last is used first", "[core]") {
  block_ledger l(8);
  const auto a = *l.reserve(lease(1), 2, 0);
  REQUIRE(l.reserve(lease(2), 2, 0));
  l.release(lease(1));
  CHECK(*l.reserve(lease(3), 2, 0) == a);
}

TEST_CASE("block_ledger: a block released by a lease nobody knows stays in quarantine", "[core]") {
  block_ledger l(4);
  REQUIRE(l.reserve(lease(1), 2, 0));
  REQUIRE(l.reserve(lease(2), 1, 0));
  CHECK(l.quarantine_unknown({lease(2)}) == 2);
  CHECK(l.quarantine_unknown({lease(2)}) == 0);
  CHECK(l.release(lease(1)) == 0);
  CHECK(l.counts().quarantined == 2);
  CHECK(l.counts().free == 1);
  CHECK(l.hash() != block_ledger(4).hash());
}
