#include "actors/core/blocks/prefix_index.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <random>
#include <utility>

using namespace troupe;
using namespace troupe::core;

namespace {

using row = std::vector<block_id>;
using tokens = std::vector<token_id>;

std::vector<block_id> found(const prefix_index& index, const tokens& text,
                            std::uint32_t block_size = 2, cache_scope scope = {}) {
  return index.find(scope, text, block_size, 100).blocks;
}

}  // namespace

TEST_CASE("prefix_index: the longest chain of whole equal blocks is found, in order", "[core]") {
  prefix_index index;
  const auto a = index.add({}, 0, tokens{1, 2}, row{10});
  const auto b = index.add({}, a, tokens{3, 4}, row{11});
  CHECK(index.add({}, b, tokens{5, 6}, row{12}) != 0);
  CHECK(index.add({}, a, tokens{3, 5}, row{13}) != 0);
  CHECK(found(index, {1, 2, 3, 4, 5, 6}) == std::vector<block_id>{10, 11, 12});
  CHECK(found(index, {1, 2, 3, 4, 5}) == std::vector<block_id>{10, 11});
  CHECK(found(index, {1, 2, 3, 5, 5, 6}) == std::vector<block_id>{10, 13});
  CHECK(found(index, {2, 1, 3, 4}).empty());
  CHECK(found(index, {3, 4}).empty());
  CHECK(found(index, {1}).empty());
  CHECK(found(index, {}).empty());
  CHECK(index.find({}, tokens{1, 2, 3, 4}, 2, 1).blocks == std::vector<block_id>{10});
  CHECK(index.find({}, tokens{1, 2, 3, 4}, 2, 2).last == b);
  CHECK(index.check().empty());
}

TEST_CASE(
    "prefix_index: tokens are compared, so no two chains can be taken for one by an equal hash",
    "[core]") {
  // Every pair of two tokens out of 300, each behind each of two parents: as many places as there
  // are chains.
  prefix_index index;
  const auto left = index.add({}, 0, tokens{1, 1}, row{0}),
             right = index.add({}, 0, tokens{2, 2}, row{1});
  std::uint32_t block = 2;
  for (token_id i = 0; i < 300; ++i)
    for (const auto parent : {left, right})
      CHECK(index.add({}, parent, tokens{i, 299 - i}, row{block++}) != 0);
  CHECK(index.size() == 602);
  for (token_id i = 0; i < 300; ++i) {
    CHECK(found(index, {1, 1, i, 299 - i})[1] == static_cast<block_id>(2 + 2 * i));
    CHECK(found(index, {2, 2, i, 299 - i})[1] == static_cast<block_id>(3 + 2 * i));
  }
}

TEST_CASE("prefix_index: the block that came first stays the one that is found", "[core]") {
  prefix_index index;
  const auto a = index.add({}, 0, tokens{1, 2}, row{10});
  CHECK(index.add({}, 0, tokens{1, 2}, row{20}) == a);
  CHECK_FALSE(index.holds(20));
  CHECK(index.remove(20).empty());
  CHECK(found(index, {1, 2}) == std::vector<block_id>{10});
}

TEST_CASE("prefix_index: removing a block takes what follows it, and its place is never had again",
          "[core]") {
  prefix_index index;
  const auto a = index.add({}, 0, tokens{1, 2}, row{10});
  const auto b = index.add({}, a, tokens{3, 4}, row{11});
  CHECK(index.followed(10));
  CHECK_FALSE(index.followed(11));
  CHECK_FALSE(index.followed(99));
  CHECK(index.remove(10) == std::vector<block_id>{10, 11});
  CHECK(index.size() == 0);
  CHECK(index.add({}, b, tokens{5, 6}, row{12}) == 0);
  const auto again = index.add({}, 0, tokens{1, 2}, row{10});
  CHECK(again != a);
  CHECK(index.add({}, a, tokens{3, 4}, row{11}) == 0);
  CHECK(index.check().empty());
}

TEST_CASE("prefix_index: C145 scopes are apart, and none is not the empty one", "[core]") {
  prefix_index index;
  index.add({}, 0, tokens{1, 2}, row{1});
  index.add({""}, 0, tokens{1, 2}, row{2});
  index.add({"a"}, 0, tokens{1, 2}, row{3});
  CHECK(found(index, {1, 2}) == std::vector<block_id>{1});
  CHECK(found(index, {1, 2}, 2, {""}) == std::vector<block_id>{2});
  CHECK(found(index, {1, 2}, 2, {"a"}) == std::vector<block_id>{3});
  CHECK(found(index, {1, 2}, 2, {"b"}).empty());
  CHECK(index.remove(2).size() == 1);
  CHECK(found(index, {1, 2}, 2, {""}).empty());
  CHECK(found(index, {1, 2}) == std::vector<block_id>{1});
}

TEST_CASE("prefix_index: random additions and removals agree with a map of whole chains",
          "[core]") {
  using chain = std::pair<cache_scope, tokens>;
  std::uint64_t additions = 0, removals = 0, late = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    std::mt19937_64 random(seed);
    const auto below = [&](std::size_t n) { return static_cast<std::uint32_t>(random() % n); };
    const auto size = 1 + below(2);
    prefix_index index;
    std::map<chain, block_id> naive;
    std::map<node_id, chain> places;  // those that were given out, dead ones too
    std::map<chain, node_id> node_of;
    block_id next = 0;
    for (int i = 0; i < 300; ++i) {
      INFO("seed " << seed << " event " << i);
      if (below(4) > 0) {
        const bool behind = !places.empty() && below(4) > 0;
        auto at = places.begin();
        if (behind) std::advance(at, below(places.size()));
        auto whole =
            behind ? at->second
                   : chain{{below(2) == 0 ? std::nullopt : std::optional<std::string>("")}, {}};
        const auto parent = behind ? at->first : 0;
        const bool alive = !behind || (node_of.contains(whole) && node_of[whole] == parent);
        tokens step(size);
        for (auto& t : step) t = static_cast<token_id>(below(2));
        whole.second.insert(whole.second.end(), step.begin(), step.end());
        const auto node = index.add(whole.first, parent, step, row{next});
        REQUIRE((node != 0) == alive);
        late += alive ? 0 : 1;
        if (alive) {
          ++additions;
          if (naive.emplace(whole, next).second) node_of[whole] = node;
          REQUIRE(node_of[whole] == node);
          places[node] = whole;
        }
        ++next;
      } else if (!naive.empty()) {
        ++removals;
        auto it = naive.begin();
        std::advance(it, below(naive.size()));
        const auto [gone, block] = *it;
        std::vector<block_id> expected;
        for (auto x = naive.begin(); x != naive.end();) {
          const bool follows =
              x->first.first == gone.first && x->first.second.size() >= gone.second.size() &&
              std::equal(gone.second.begin(), gone.second.end(), x->first.second.begin());
          if (follows) {
            expected.push_back(x->second);
            node_of.erase(x->first);
          }
          x = follows ? naive.erase(x) : std::next(x);
        }
        auto removed = index.remove(block);
        REQUIRE(removed.front() == block);
        std::sort(removed.begin(), removed.end());
        std::sort(expected.begin(), expected.end());
        REQUIRE(removed == expected);
      }
      REQUIRE(index.check() == "");
      REQUIRE(index.size() == naive.size());
      for (const auto& [whole, block] : naive)
        REQUIRE(found(index, whole.second, size, whole.first).back() == block);
    }
  }
  CHECK(additions > 5000);
  CHECK(removals > 1000);
  CHECK(late > 1000);
}
