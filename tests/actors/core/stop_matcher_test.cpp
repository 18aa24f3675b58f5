#include "actors/core/stop_matcher.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <random>

using namespace troupe::core;

namespace {

struct outcome_of_text {
  std::string shown;
  std::optional<std::string> matched;
};

// All matches of the whole text, the earliest and longest of them.
outcome_of_text naive(const std::vector<std::string>& stops, const std::string& text,
                      bool include) {
  std::optional<std::size_t> at;
  std::string best;
  for (const auto& s : stops) {
    const auto p = text.find(s);
    if (p == std::string::npos) continue;
    if (!at || p < *at || (p == *at && s.size() > best.size())) at = p, best = s;
  }
  if (!at) return {text, std::nullopt};
  return {text.substr(0, *at) + (include ? best : ""), best};
}

outcome_of_text fed(const std::vector<std::string>& stops, const std::vector<std::string>& chunks,
                    bool include) {
  stop_matcher m(stops, include);
  std::string shown;
  for (const auto& c : chunks) shown += m.push(c);
  shown += m.flush();
  return {shown, m.matched()};
}

}  // namespace

TEST_CASE("stop_matcher: random texts, stops and chunks agree with a search of the whole text",
          "[core]") {
  std::mt19937_64 random(11);
  const auto below = [&](std::uint32_t n) { return static_cast<std::uint32_t>(random() % n); };
  const auto word = [&](std::uint32_t max, std::uint32_t letters) {
    std::string s;
    for (std::uint32_t n = 1 + below(max); n > 0; --n)
      s.push_back(static_cast<char>('a' + below(letters)));
    return s;
  };
  int matches = 0;
  for (int i = 0; i < 40'000; ++i) {
    const auto letters = 1 + below(4);
    std::vector<std::string> stops;
    for (auto n = below(5); n > 0; --n) stops.push_back(word(6, letters));
    const auto text = below(8) ? word(40, letters) : "";
    std::vector<std::string> chunks;
    for (std::size_t p = 0; p < text.size();) {
      const auto n = 1 + below(5);
      chunks.push_back(text.substr(p, n));
      p += n;
    }
    const bool include = below(2) == 1;
    const auto expected = naive(stops, text, include);
    const auto got = fed(stops, chunks, include);
    INFO("text " << text << " stops " << stops.size()
                 << (stops.empty() ? "" : " first " + stops[0]));
    REQUIRE(got.shown == expected.shown);
    REQUIRE(got.matched == expected.matched);
    matches += got.matched ? 1 : 0;
  }
  CHECK(matches > 10'000);
}

TEST_CASE("stop_matcher: a shorter stop inside a possible longer one waits for the next character",
          "[core]") {
  SECTION("the longer one fails") {
    stop_matcher m({"abcd", "c"});
    CHECK(m.push("abc").empty());
    CHECK_FALSE(m.matched());
    CHECK(m.push("x") == "ab");
    CHECK(m.matched() == "c");
  }
  SECTION("the longer one starts earlier and wins") {
    stop_matcher m({"abcd", "c"});
    CHECK(m.push("zabc") == "z");
    CHECK(m.push("d").empty());
    CHECK(m.matched() == "abcd");
  }
  SECTION("the end decides") {
    stop_matcher m({"abcd", "c"});
    CHECK(m.push("abc").empty());
    CHECK(m.flush() == "ab");
    CHECK(m.matched() == "c");
  }
  SECTION("the same start, the longer wins") {
    stop_matcher m({"ab", "abab"});
    CHECK(m.push("xab") == "x");
    CHECK_FALSE(m.matched());
    m.push("ab");
    CHECK(m.matched() == "abab");
  }
}

TEST_CASE("stop_matcher: holds back only what may still become a stop", "[core]") {
  stop_matcher m({"\n\nUser:"});
  CHECK(m.push("one\n") == "one");
  CHECK(m.push("two") == "\ntwo");
  CHECK(m.push("\n\n\nUse") == "\n");
  CHECK(m.push("d") == "\n\nUsed");
  CHECK(m.push(" \xc3\xa9") == " \xc3\xa9");
  CHECK(m.flush().empty());
}

TEST_CASE(
    "stop_matcher: everything after a match is dropped, and the stop shown only when asked for",
    "[core]") {
  stop_matcher hidden({"END"});
  CHECK(hidden.push("a END b") == "a ");
  CHECK(hidden.push("more").empty());
  CHECK(hidden.flush().empty());
  stop_matcher shown({"END"}, true);
  CHECK(shown.push("a END b") == "a END");
}

TEST_CASE("stop_matcher: without stops text passes through", "[core]") {
  stop_matcher m({});
  CHECK(m.push("abc") == "abc");
  CHECK(m.flush().empty());
}

TEST_CASE("stop_matcher: a long periodic stop over long periodic text stays linear", "[core]") {
  const std::string stop(1000, 'a');
  stop_matcher m({stop + "b", stop + "c"});
  const auto begin = std::chrono::steady_clock::now();
  std::size_t shown = 0;
  for (int i = 0; i < 400'000; ++i) shown += m.push("a").size();
  const auto seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  CHECK(shown == 400'000 - 1000);
  CHECK(seconds <
        2.0);  // 0.03 s when linear; re-scanning the held text would compare 400 million characters
  m.push("b");
  CHECK(m.matched() == stop + "b");
}
