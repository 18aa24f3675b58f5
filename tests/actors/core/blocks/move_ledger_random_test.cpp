// Random walks of the ledger beside a naive model of it.
#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <random>

#include "actors/core/blocks/move_ledger.hpp"
#include "tests/actors/core/blocks/move_bench.hpp"
#include "tests/actors/core/proof_runs.hpp"

using namespace troupe::core;
using namespace troupe::core::testing;

namespace {

/// The same rules with one entry per slot and one per lease, too plain to be wrong. Which slots a
/// lease has reserved shows only when a chunk names them, so until then they are a number here.
struct naive_ledger {
  struct place {
    lease_id owner;  // none: named by nobody
    std::uint32_t block = 0;
  };
  struct known {
    std::uint32_t total = 0;
    std::vector<std::uint64_t> sums;
    std::uint64_t move = 0;
    bool out = false, dropped = false;
    std::uint32_t count = 0;
  };
  std::vector<place> slots;
  std::map<lease_id, known> leases;
  std::uint64_t reserved = 0, freed = 0, unknown_drops = 0, stale = 0;

  explicit naive_ledger(std::uint32_t total) : slots(total) {}

  std::uint32_t used() const {
    std::uint32_t n = 0;
    for (const auto& [of, k] : leases) n += k.total;
    return n;
  }
  std::uint32_t forget(lease_id of) {
    const auto n = leases.at(of).total;
    for (auto& s : slots)
      if (s.owner == of) s = {};
    leases.erase(of);
    freed += n;
    return n;
  }
  lease_id of_move(std::uint64_t move) const {
    for (const auto& [of, k] : leases)
      if (move != 0 && k.move == move) return of;
    return {};
  }
  move_counts counts() const {
    move_counts c;
    c.total = static_cast<std::uint32_t>(slots.size());
    c.used = used();
    c.copies = static_cast<std::uint32_t>(leases.size());
    for (const auto& [of, k] : leases) {
      c.filled += static_cast<std::uint32_t>(k.sums.size());
      c.moving += k.move != 0;
    }
    c.reserved_total = reserved;
    c.freed_total = freed;
    c.unknown_drops = unknown_drops;
    c.stale_ends = stale;
    return c;
  }
};

/// One random walk of the real and the naive ledger side by side.
struct walk {
  explicit walk(std::uint64_t seed) : random(seed), real(below(40)), naive(real.counts().total) {
    for (auto& w : odds)
      w = &w != odds && below(5) == 0 ? 0 : w;  // some never happen, so that the rest goes far
  }

  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); }
  lease_id some_lease() { return lease(1 + below(5), 1 + below(2)); }
  /// Mostly a new number, at times one used before.
  std::uint64_t some_move() {
    return below(20) == 0 ? below(static_cast<std::uint32_t>(last + 1)) : ++last;
  }

  void event() {
    auto pick = below(std::accumulate(odds, odds + 5, 0u));
    int what = 0;
    while (pick >= odds[what]) pick -= odds[what++];
    switch (what) {
      case 0:
        return begin_out();
      case 1:
        return begin_in();
      case 2:
        return end();
      case 3:
        return drop();
      default:
        return audit();
    }
  }

  void begin_out() {
    const auto of = some_lease();
    const auto known = naive.leases.find(of);
    const bool goes_on = known != naive.leases.end() && below(8) > 0;
    const auto first = goes_on         ? static_cast<std::uint32_t>(known->second.sums.size())
                       : below(8) == 0 ? below(5)
                                       : 0;
    const auto total = goes_on ? known->second.total + (below(16) == 0) : below(14);
    const auto room = total > first ? total - first : 0;
    const auto ask = out(some_move(), of, first,
                         below(10) == 0 ? below(20)
                         : room == 0    ? 1
                                        : 1 + below(room),
                         total);
    const auto count = static_cast<std::uint32_t>(ask.blocks.size());

    bool sound = ask.move && naive.of_move(ask.move.value) == lease_id{} && count > 0 &&
                 first + count <= total;
    if (known == naive.leases.end())
      sound = sound && first == 0;
    else
      sound = sound && known->second.move == 0 && first == known->second.sums.size() &&
              total == known->second.total;
    const auto before = real;
    const auto got = real.begin_out(ask);
    REQUIRE(got.violation.empty() == sound);
    if (!sound) {
      ++violations;
      REQUIRE(got.outcome == move_outcome::failed);
      REQUIRE(real == before);
      return;
    }
    const bool fits = known != naive.leases.end() || naive.used() + total <= naive.slots.size();
    REQUIRE(got.outcome == (fits ? move_outcome::ok : move_outcome::host_full));
    if (!fits) {
      ++refusals;
      REQUIRE(real == before);
      return;
    }
    ++starts;
    REQUIRE(got.slots.size() == count);
    auto& k = naive.leases[of];
    if (k.total == 0) naive.reserved += total, k.total = total;
    for (std::uint32_t i = 0; i < count; ++i) {
      REQUIRE(naive.slots.at(got.slots[i]).owner == lease_id{});
      naive.slots[got.slots[i]] = {of, first + i};
    }
    k.move = ask.move.value, k.out = true, k.count = count;
  }

  void begin_in() {
    const auto of = some_lease();
    const auto known = naive.leases.find(of);
    const auto filled =
        known == naive.leases.end() ? 0 : static_cast<std::uint32_t>(known->second.sums.size());
    const auto first = filled == 0 ? below(2) : below(filled + (below(8) == 0));
    const auto count = below(12) == 0 ? below(9) : filled > first ? 1 + below(filled - first) : 1;
    const auto ask = in(some_move(), of, first, count);
    const bool numbered = ask.move && naive.of_move(ask.move.value) == lease_id{} && count > 0;
    const bool sound = numbered && (known == naive.leases.end() ||
                                    (known->second.move == 0 && first + count <= filled));
    const auto before = real;
    const auto got = real.begin_in(ask);
    REQUIRE(got.violation.empty() == sound);
    if (!sound || known == naive.leases.end()) {
      violations += !sound;
      REQUIRE(got.outcome == move_outcome::failed);
      REQUIRE(real == before);
      return;
    }
    ++starts;
    auto& k = known->second;
    REQUIRE(got.outcome == move_outcome::ok);
    REQUIRE(got.slots.size() == count);
    for (std::uint32_t i = 0; i < count; ++i) {
      REQUIRE(naive.slots.at(got.slots[i]).owner == of);
      REQUIRE(naive.slots.at(got.slots[i]).block == first + i);
      REQUIRE(got.checksums.at(i) == k.sums.at(first + i));
    }
    k.move = ask.move.value, k.out = false, k.count = count;
  }

  void end() {
    std::uint64_t move = below(static_cast<std::uint32_t>(last + 2));  // mostly over long since
    if (below(6) > 0)
      if (const auto some = naive.leases.find(some_lease()); some != naive.leases.end())
        move = some->second.move;
    const auto of = naive.of_move(move);
    const auto known = naive.leases.find(of);
    const bool as_out =
        known == naive.leases.end() || below(10) == 0 ? below(2) == 0 : known->second.out;
    const bool right = known != naive.leases.end() && known->second.out == as_out;
    const bool ok = below(8) > 0;
    const auto count = right ? known->second.count + (below(12) == 0) : below(3);
    const auto checksums = sums(random(), count);
    REQUIRE((as_out ? real.end_out(move_id{move}, ok, checksums) : real.end_in(move_id{move})) ==
            right);
    if (!right) {
      ++naive.stale;
      return;
    }
    auto& k = known->second;
    k.move = 0;
    const bool lost = as_out && (!ok || count != k.count);
    if (lost || k.dropped)
      naive.forget(of);
    else if (as_out)
      k.sums.insert(k.sums.end(), checksums.begin(), checksums.end());
  }

  void drop() {
    const auto of = some_lease();
    const auto known = naive.leases.find(of);
    if (known == naive.leases.end() || known->second.dropped) {
      ++naive.unknown_drops;
      REQUIRE(real.drop(of) == 0);
    } else if (known->second.move != 0) {
      known->second.dropped = true;
      REQUIRE(real.drop(of) == 0);
    } else {
      REQUIRE(real.drop(of) == naive.forget(of));
    }
  }

  void audit() {
    std::vector<lease_id> parked;
    for (const auto& [of, k] : naive.leases)
      if (below(4) > 0) parked.push_back(of);
    std::vector<lease_id> nobodys;
    for (const auto& [of, k] : naive.leases)
      if (k.move == 0 && !std::binary_search(parked.begin(), parked.end(), of))
        nobodys.push_back(of);
    std::uint32_t lost = 0;
    for (const auto& of : nobodys) lost += naive.forget(of);
    REQUIRE(real.drop_unknown(parked) == lost);
  }

  std::mt19937_64 random;
  move_ledger real;
  naive_ledger naive;
  std::uint64_t last = 0;
  std::uint64_t starts = 0, refusals = 0, violations = 0;
  std::uint32_t odds[5] = {40, 15, 38, 5, 2};  // begin_out, begin_in, end, drop, audit
};

}  // namespace

TEST_CASE("move_ledger: random events agree with a naive model after each", "[core][random]") {
  std::uint64_t starts = 0, refusals = 0, violations = 0, events = 0;
  const auto last_seed = seeds(300, 10'000);
  for (std::uint64_t seed = 1; seed <= last_seed; ++seed) {
    walk w(seed);
    for (int i = 0; i < 500; ++i, ++events) {
      INFO("seed " << seed << " event " << i);
      w.event();
      REQUIRE(w.real.check() == "");
      REQUIRE(w.real.counts() == w.naive.counts());
    }
    starts += w.starts, refusals += w.refusals, violations += w.violations;
  }
  CHECK(starts > 5000);
  CHECK(refusals > 1000);
  CHECK(violations > 1000);
  tell("move ledger against the naive one", events, 5'000'000);
  CHECK(events >= (proof_run() ? 5'000'000 : 150'000));
}
