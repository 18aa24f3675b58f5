#include "config/shared_sequence.hpp"

#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "config/decode_options.hpp"

using troupe::shared_sequence;

using numbers = shared_sequence<int>;

TEST_CASE("shared_sequence: a copy shares memory and is equal by content", "[config]") {
  const numbers a{1, 2, 3};
  const auto b = a;
  CHECK(b.shares_with(a));
  CHECK(b == a);
  CHECK(b == std::vector<int>{1, 2, 3});
  CHECK(numbers{1, 2, 3} == a);
  CHECK_FALSE(numbers{1, 2, 3}.shares_with(a));
  CHECK_FALSE(numbers{1, 2} == a);
  CHECK_FALSE(numbers{1, 2, 4} == a);
  CHECK(numbers{1, 2} < a);
  CHECK(numbers() == numbers(std::vector<int>()));
  CHECK_FALSE(numbers().shares_with(numbers()));
}

TEST_CASE("shared_sequence: an older copy does not see what a newer one appends", "[config]") {
  numbers a{1, 2};
  a.push_back(3);  // has room from here on
  const auto before = a;
  a.push_back(4);
  CHECK(a.shares_with(before));
  CHECK(before == std::vector<int>{1, 2, 3});
  CHECK(a == std::vector<int>{1, 2, 3, 4});
}

TEST_CASE("shared_sequence: of two copies that append, each keeps its own", "[config]") {
  numbers a{1, 2};
  a.push_back(3);
  auto b = a;
  a.push_back(4);
  b.push_back(5);
  CHECK_FALSE(b.shares_with(a));
  CHECK(a == std::vector<int>{1, 2, 3, 4});
  CHECK(b == std::vector<int>{1, 2, 3, 5});
  for (int i = 0; i < 100; ++i) b.push_back(i);
  CHECK(b.size() == 104);
  CHECK(b[103] == 99);
  CHECK(a == std::vector<int>{1, 2, 3, 4});
}

TEST_CASE("shared_sequence: appending a part of itself is whole, also when it moves", "[config]") {
  numbers a{1, 2, 3};
  for (int i = 0; i < 6; ++i) a.append({a.data(), a.size()});
  REQUIRE(a.size() == 3 * 64);
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == static_cast<int>(i % 3) + 1);
  a.append({});
  CHECK(a.size() == 3 * 64);
}

TEST_CASE("shared_sequence: copies on two threads append and read without touching each other",
          "[config]") {
  numbers first{0};
  first.push_back(1);
  const auto grow = [](numbers mine, int from) {
    for (int i = 0; i < 1000; ++i) {
      const auto before = mine;
      mine.push_back(from + i);
      if (before.size() + 1 != mine.size() || mine[mine.size() - 1] != from + i) return numbers();
    }
    return mine;
  };
  numbers left, right;
  std::thread other([&, copy = first] { left = grow(copy, 10'000); });
  right = grow(first, 20'000);
  other.join();
  REQUIRE(left.size() == 1002);
  REQUIRE(right.size() == 1002);
  for (std::size_t i = 2; i < 1002; ++i) {
    CHECK(left[i] == 10'000 + static_cast<int>(i) - 2);
    CHECK(right[i] == 20'000 + static_cast<int>(i) - 2);
  }
}

TEST_CASE("shared_value: a copy is changed alone", "[config]") {
  troupe::shared_decode a;
  CHECK(a->top_logprobs == -1);
  CHECK(a == troupe::shared_decode{});
  a.edit().top_logprobs = 3;
  auto b = a;
  CHECK(&*b == &*a);
  b.edit().top_logprobs = 4;
  CHECK(a->top_logprobs == 3);
  CHECK(b->top_logprobs == 4);
  CHECK_FALSE(a == b);
  b.edit().top_logprobs = 3;
  CHECK(a == b);
  const auto* alone = &*b;
  b.edit().ignore_eos = true;  // nobody else has it: changed in place
  CHECK(&*b == alone);
  const auto moved = std::move(b);
  CHECK(moved->ignore_eos);
}
