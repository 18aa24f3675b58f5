#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <utility>

#include "actors/core/blocks/block_ledger.hpp"
#include "tests/actors/core/blocks/naive_ledger.hpp"
#include "tests/actors/core/proof_runs.hpp"

using namespace troupe;
using namespace troupe::core;

namespace {

using tokens = std::vector<token_id>;

lease_id lease(std::uint64_t request, std::uint32_t epoch = 1) {
  return {request_id{request}, epoch};
}

cache_scope scope_of(std::uint32_t n) {
  if (n == 0) return {};
  return {n == 1 ? "" : std::string(n - 1, 'a')};
}

// What happens how often; a seed leaves some of it out, so that the rest goes far.
struct weights {
  std::uint32_t admit, grow, publish, wrong_publish, scribble, release, preempt, forget, unknown,
      quarantine, fork, wrong_fork, drop_source, trim;
};

// One seed: a real and a naive ledger under the same random events.
class ledger_trial {
 public:
  explicit ledger_trial(std::uint64_t seed)
      : random_(seed), real_({0, 1, true}), naive_({0, 1, true}) {
    // Two in three trials have one layer group, as most models.
    const auto groups = below(3) == 0 ? 2 + below(2) : 1;
    const ledger_options options{groups * below(24), 1 + below(3), below(10) > 0, groups};
    real_ = block_ledger(options);
    naive_ = naive_ledger(options);
    letters_ = 1 + below(3);
    scopes_ = 1 + below(4);
    longest_ = 1 + below(8);
    const auto sometimes = [&](std::uint32_t n) { return below(4) == 0 ? 0 : n; };
    odds_ = {8,
             sometimes(6),
             sometimes(12),
             sometimes(2),
             sometimes(3),
             sometimes(6),
             sometimes(2),
             sometimes(3),
             sometimes(1),
             below(8) == 0 ? 1u : 0u,
             sometimes(6),
             sometimes(1),
             sometimes(4),
             sometimes(4)};
  }

  /// Empty, or what the two disagree on.
  std::string event() {
    const auto* w = &odds_.admit;
    std::uint32_t sum = 0, at = 0;
    for (int i = 0; i < 14; ++i) sum += w[i];
    auto pick = below(sum);
    while (pick >= w[at]) pick -= w[at++];
    auto wrong = apply(at);
    if (wrong.empty()) wrong = naive_.compare(real_);
    return wrong;
  }

  std::uint64_t granted = 0, denied = 0, hits = 0, shared = 0, published = 0, lost = 0,
                forgotten = 0, forked = 0, not_forked = 0, dropped = 0, trimmed = 0,
                not_trimmed = 0;
  std::uint64_t evicted() const { return real_.counts().evicted_total; }
  std::uint64_t quarantined() const { return real_.counts().quarantined; }

 private:
  std::uint32_t below(std::uint32_t n) {
    return n == 0 ? 0 : static_cast<std::uint32_t>(random_() % n);
  }
  tokens text(std::size_t n) {
    tokens out(n);
    for (auto& t : out) t = static_cast<token_id>(below(letters_));
    return out;
  }
  lease_id any_lease() { return lease(1 + below(6), 1 + below(2)); }

  std::string apply(std::uint32_t what) {
    switch (what) {
      case 0:
        return reserve(below(6) > 0);
      case 1:
        return reserve(false);
      case 2:
        return publish(true);
      case 3:
        return publish(false);
      case 4:
        return scribble();
      case 9:
        return quarantine();
      case 10:
        return fork(true);
      case 11:
        return fork(false);
      case 12:
        return drop_source();
      case 13:
        return trim();
      default:
        return release(what);
    }
  }

  std::string reserve(bool query) {
    core::reserve ask{any_lease(), below(longest_), below(4), std::nullopt};
    if (query) {
      auto scope = scope_of(below(scopes_));
      auto wanted = text(below(longest_ * naive_.options.block_size + 2));
      if (!naive_.cache.empty() && below(2) == 0) {  // something that is there, then something else
        const auto& known =
            std::next(naive_.cache.begin(), below(static_cast<std::uint32_t>(naive_.cache.size())))
                ->first;
        auto tail = std::exchange(wanted, known.tokens);
        if (below(3) > 0) scope = known.scope;
        tail.resize(std::min<std::size_t>(tail.size(), 1 + below(4)));
        wanted.insert(wanted.end(), tail.begin(), tail.end());
      }
      if (!naive_.leases.contains(ask.lease)) asked_[ask.lease] = wanted;
      ask.prefix = prefix_query{std::move(scope), wanted};
    }
    const auto got = real_.reserve(ask);
    ++(got ? granted : denied);
    if (got) hits += got->cached;
    if (got)
      for (std::uint32_t n = 0; n < got->cached * naive_.options.groups; ++n)
        shared += naive_.holders[got->blocks[n]].empty() ? 0 : 1;
    return naive_.reserve(ask, got);
  }

  std::string publish(bool right) {
    const auto id = any_lease();
    const auto it = naive_.leases.find(id);
    const auto size = naive_.options.block_size;
    core::publish m{id, 0, {}};
    if (it != naive_.leases.end()) {
      m.first = static_cast<std::uint32_t>(it->second.tokens.size() / size);
      const auto rows = static_cast<std::uint32_t>(naive_.rows_of(it->second));
      m.tokens = text(size * (rows - m.first - below(2) * below(rows - m.first + 1)));
      // What was asked for comes first, as a prompt does.
      const auto& asked = asked_[id];
      for (auto n = std::size_t{m.first} * size, i = std::size_t{0};
           n < asked.size() && i < m.tokens.size(); ++n, ++i)
        m.tokens[i] = asked[n];
    }
    if (!right) {
      m.first += below(3);
      m.tokens = text(below(longest_ * size));
    }
    const auto before = real_;
    const bool answer = real_.publish(m);
    if (!answer && !(real_ == before)) return "a refused publish changed something";
    if (answer) {
      published += m.tokens.size() / size;
      lost += naive_.leases.at(id).lost ? 1 : 0;
    }
    return naive_.publish(m, answer);
  }

  // The step computes into the blocks behind the published ones.
  std::string scribble() {
    for (const auto& [id, l] : naive_.leases)
      for (auto n = std::max(l.shared, l.tokens.size() / naive_.options.block_size);
           n < naive_.rows_of(l); ++n)
        if (auto wrong = naive_.scribble(id, n); !wrong.empty()) return wrong;
    return "";
  }

  // What is shared is computed: as far as the parent has known it.
  std::string fork(bool right) {
    fork_lease ask{any_lease(), any_lease(), below(longest_), below(2) == 0, below(4)};
    const auto parent = naive_.leases.find(ask.parent);
    if (right && parent != naive_.leases.end()) {
      const auto& l = parent->second;
      const auto known = static_cast<std::uint32_t>(l.tokens.size() / naive_.options.block_size);
      ask.shared = below(4) == 0 ? below(known + 1) : known;
      ask.copies = ask.copies && known < naive_.rows_of(l) && ask.shared == known;
      ask.child.request = request_id{1 + below(6)};
    } else if (right) {
      return "";
    } else if (parent != naive_.leases.end()) {
      ask.shared += static_cast<std::uint32_t>(naive_.rows_of(parent->second));  // too many
      ask.copies = true;
    }
    const auto before = real_;
    const auto got = real_.fork(ask);
    if (!got && !(real_ == before)) return "a refused fork changed something";
    ++(got ? forked : not_forked);
    return naive_.fork(ask, got);
  }

  std::string drop_source() {
    auto id = any_lease();
    for (const auto& [lease, l] : naive_.leases)
      if (!l.sources.empty() && below(2)) id = lease;
    const auto got = real_.drop_source(id);
    dropped += got ? 1 : 0;
    return naive_.drop_source(id, got);
  }

  // Mostly rows that are computed; sometimes a group, or rows, that the lease does not have.
  std::string trim() {
    core::trim ask{any_lease(), below(naive_.options.groups), below(longest_)};
    const auto it = naive_.leases.find(ask.lease);
    if (it != naive_.leases.end() && below(8) > 0)
      ask.rows = std::min<std::uint32_t>(
          ask.rows,
          static_cast<std::uint32_t>(it->second.tokens.size() / naive_.options.block_size));
    if (below(16) == 0) ask.group += naive_.options.groups;
    const auto before = real_;
    const auto got = real_.trim(ask);
    if (!got && !(real_ == before)) return "a refused trim changed something";
    ++(got ? trimmed : not_trimmed);
    return naive_.trim(ask, got);
  }

  std::string release(std::uint32_t what) {
    core::release m{what == 8 ? lease(99) : any_lease(), end_reason::length, what == 6, what == 7};
    const auto cached = real_.counts().cached;
    const auto got = real_.release(m);
    forgotten += m.forget && real_.counts().cached - cached < got.usable ? 1 : 0;
    return naive_.release(m, got);
  }

  std::string quarantine() {
    if (below(6) > 0) return "";
    std::vector<lease_id> live;
    for (const auto& [id, l] : naive_.leases)
      if (below(5) > 0) live.push_back(id);
    return naive_.quarantine_unknown(live, real_.quarantine_unknown(live));
  }

  std::mt19937_64 random_;
  block_ledger real_;
  naive_ledger naive_;
  std::uint32_t letters_ = 1, scopes_ = 1, longest_ = 1;
  weights odds_{};
  std::map<lease_id, tokens> asked_;
};

}  // namespace

TEST_CASE("block_ledger: random events agree with a naive model after each, contents included",
          "[core][random]") {
  std::uint64_t granted = 0, denied = 0, hits = 0, shared = 0, published = 0, lost = 0,
                forgotten = 0, evicted = 0, quarantined = 0, events = 0;
  std::uint64_t forked = 0, not_forked = 0, dropped = 0, trimmed = 0, not_trimmed = 0;
  const auto last_seed = testing::seeds(1000, 5000);
  for (std::uint64_t seed = 1; seed <= last_seed; ++seed) {
    ledger_trial trial(seed);
    for (int i = 0; i < 1000; ++i, ++events)
      if (const auto wrong = trial.event(); !wrong.empty())
        FAIL("seed " << seed << " event " << i << ": " << wrong);
    granted += trial.granted;
    denied += trial.denied;
    hits += trial.hits;
    shared += trial.shared;
    published += trial.published;
    lost += trial.lost;
    forgotten += trial.forgotten;
    evicted += trial.evicted();
    quarantined += trial.quarantined();
    forked += trial.forked;
    not_forked += trial.not_forked;
    dropped += trial.dropped;
    trimmed += trial.trimmed;
    not_trimmed += trial.not_trimmed;
  }
  INFO(granted << " granted " << denied << " denied " << hits << " hits " << shared << " shared "
               << published << " published " << lost << " lost " << forgotten << " forgotten "
               << evicted << " evicted " << quarantined << " quarantined");
  CHECK(std::min({granted, denied, hits, shared, published}) > 10000);
  CHECK(std::min({forgotten, evicted}) > 5000);
  CHECK(std::min(lost, quarantined) > 300);
  CHECK(std::min({forked, not_forked, dropped, trimmed, not_trimmed}) > 1000);
  testing::tell("block ledger against the naive one", events, 5'000'000);
  CHECK(events >= (testing::proof_run() ? 5'000'000 : 800'000));
}
