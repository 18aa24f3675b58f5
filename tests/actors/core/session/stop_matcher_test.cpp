#include "actors/core/session/stop_matcher.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <ctime>
#include <random>

using namespace troupe::core;

namespace {

using troupe::stop_boundary;

struct outcome_of_text {
  std::string shown;
  std::optional<std::string> matched;
};

stop_matcher matcher(std::vector<std::string> stops, bool include = false,
                     stop_boundary boundary = stop_boundary::none,
                     bool (*is_word)(char32_t) = nullptr) {
  return stop_matcher({std::move(stops), include, boundary, is_word});
}

// Text as characters, each one string: boundaries are looked at before and behind whole ones.
using characters = std::vector<std::string>;

bool stands_alone(const characters& text, std::size_t from, std::size_t to,
                  stop_boundary boundary) {
  const auto is_word = [](const std::string& c) {
    return c == "a" || c == "b" || c == "_" || c == "\u00e9" || c == "\u6f22";
  };
  const auto is_break = [](const std::string& c) { return c == "\n" || c == "\r"; };
  if (boundary == stop_boundary::word)
    return (from == 0 || !is_word(text[from - 1])) && (to == text.size() || !is_word(text[to]));
  if (boundary == stop_boundary::line)
    return (from == 0 || is_break(text[from - 1])) && (to == text.size() || is_break(text[to]));
  return true;
}

std::string joined(const characters& text, std::size_t from, std::size_t to) {
  std::string out;
  for (std::size_t i = from; i < to; ++i) out += text[i];
  return out;
}

// Every place of the whole text and every stop, the earliest and longest match of them. Matches
// that end within the first `muted` characters do not count.
outcome_of_text naive(const std::vector<std::string>& stops, const characters& text, bool include,
                      stop_boundary boundary, std::size_t muted) {
  for (std::size_t from = 0; from < text.size(); ++from) {
    for (std::size_t to = text.size(); to > from && to > muted; --to) {
      const auto piece = joined(text, from, to);
      if (std::find(stops.begin(), stops.end(), piece) == stops.end()) continue;
      if (!stands_alone(text, from, to, boundary)) continue;
      return {joined(text, 0, from) + (include ? piece : ""), piece};
    }
  }
  return {joined(text, 0, text.size()), std::nullopt};
}

bool test_alphabet(char32_t code) {
  return code == U'\u00e9' || code == U'\u6f22';  // not U+2026, not the emoji
}

}  // namespace

TEST_CASE(
    "stop_matcher: random texts, stops, chunks and boundaries agree with a search of the whole "
    "text",
    "[core]") {
  std::mt19937_64 random(11);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const characters alphabet{"a",      "b",      " ",          "\n", "_", "\u00e9",
                            "\u6f22", "\u2026", "\U0001f600", ".",  "\r"};
  const auto word = [&](std::size_t max, std::size_t letters) {
    characters s;
    for (auto n = 1 + below(max); n > 0; --n) s.push_back(alphabet[below(letters)]);
    return s;
  };
  int matches[3] = {0, 0, 0};
  for (int i = 0; i < 45'000; ++i) {
    const auto letters = 1 + below(alphabet.size());
    std::vector<std::string> stops;
    for (auto n = below(5); n > 0; --n) {
      const auto stop = word(5, letters);
      stops.push_back(joined(stop, 0, stop.size()));
    }
    const auto text = below(8) ? word(40, letters) : characters{};
    const bool include = below(2) == 1;
    const auto kind = below(3);
    const auto boundary = static_cast<stop_boundary>(kind);
    const auto muted_wish = below(3) ? 0 : below(10);
    auto m = matcher(stops, include, boundary, test_alphabet);
    outcome_of_text got;
    std::size_t muted = 0;
    for (std::size_t at = 0; at < text.size();) {
      const auto to = std::min(text.size(), at + 1 + below(5));
      const bool counts = to > muted_wish;
      if (!counts) muted = to;
      got.shown += m.push(joined(text, at, to), counts);
      at = to;
    }
    got.shown += m.flush();
    got.matched = m.matched();
    const auto expected = naive(stops, text, include, boundary, muted);
    INFO("boundary " << kind << " muted " << muted << " text <" << joined(text, 0, text.size())
                     << ">");
    for (const auto& stop : stops) UNSCOPED_INFO("stop <" << stop << ">");
    REQUIRE(got.shown == expected.shown);
    REQUIRE(got.matched == expected.matched);
    matches[kind] += got.matched ? 1 : 0;
  }
  CHECK(matches[0] > 5'000);
  CHECK(matches[1] > 1'500);
  CHECK(matches[2] > 200);
}

namespace {

/// Fed byte by byte; "|" stands for the stop.
std::string shown_with(const char* stop, stop_boundary boundary, const std::string& text) {
  auto m = matcher({stop}, false, boundary);
  std::string shown;
  for (const char c : text) shown += m.push(std::string(1, c));
  shown += m.flush();
  return m.matched() ? shown + "|" : shown;
}

}  // namespace

TEST_CASE("stop_matcher: a word stop counts only beside characters that are no letter, digit or _",
          "[core]") {
  const auto text_of = [](const std::string& text) {
    return shown_with("stop", stop_boundary::word, text);
  };
  CHECK(text_of("stop") == "|");
  CHECK(text_of("do stop now") == "do |");
  CHECK(text_of("(stop)") == "(|");
  CHECK(text_of("a\nstop") == "a\n|");
  for (const char* alone : {"nonstop", "stops", "stop_", "_stop", "stop1", "7stop", "Stop"})
    CHECK(text_of(alone) == alone);
  CHECK(text_of("stopstop stop") == "stopstop |");  // the later one counts
  CHECK(text_of("stops or stop.") == "stops or |");
  auto m = matcher({"stop"}, false, stop_boundary::word);
  CHECK(m.push("caf\u00e9stop stop\u00e9t\u00e9 \u2026") ==
        "caf\u00e9stop stop\u00e9t\u00e9 \u2026");
  CHECK_FALSE(m.matched());
}

TEST_CASE("stop_matcher: a line stop is a line of its own", "[core]") {
  const auto text_of = [](const std::string& text) {
    return shown_with("END", stop_boundary::line, text);
  };
  CHECK(text_of("END") == "|");
  CHECK(text_of("a\nEND\nb") == "a\n|");
  CHECK(text_of("a\r\nEND\r\nb") == "a\r\n|");
  CHECK(text_of("a\nEND") == "a\n|");
  for (const char* other : {" END\n", "a END\n", "END \n", "ENDING\n", "END."})
    CHECK(text_of(other) == other);
  CHECK(text_of("the END\nEND\n") == "the END\n|");
}

TEST_CASE(
    "stop_matcher: the character behind a stop is awaited, whole, and nothing else is held for it",
    "[core]") {
  auto m = matcher({"stop"}, false, stop_boundary::word);
  CHECK(m.push("do stop") == "do ");
  CHECK_FALSE(m.matched());
  CHECK(m.push("\u00e9").size() == 6);  // a letter: all of it is text
  CHECK(m.push("xsto") == "xsto");      // in a word already: can become no stop
  CHECK(m.push(" stop") == " ");
  CHECK(m.push(",").empty());
  CHECK(m.matched() == "stop");
}

TEST_CASE("stop_matcher: a shorter stop inside a possible longer one waits for the next character",
          "[core]") {
  SECTION("the longer one fails") {
    auto m = matcher({"abcd", "c"});
    CHECK(m.push("abc").empty());
    CHECK_FALSE(m.matched());
    CHECK(m.push("x") == "ab");
    CHECK(m.matched() == "c");
  }
  SECTION("the longer one starts earlier and wins") {
    auto m = matcher({"abcd", "c"});
    CHECK(m.push("zabc") == "z");
    CHECK(m.push("d").empty());
    CHECK(m.matched() == "abcd");
  }
  SECTION("the end decides") {
    auto m = matcher({"abcd", "c"});
    CHECK(m.push("abc").empty());
    CHECK(m.flush() == "ab");
    CHECK(m.matched() == "c");
  }
  SECTION("the same start, the longer wins") {
    auto m = matcher({"ab", "abab"});
    CHECK(m.push("xab") == "x");
    CHECK_FALSE(m.matched());
    m.push("ab");
    CHECK(m.matched() == "abab");
  }
}

TEST_CASE("stop_matcher: holds back only what may still become a stop", "[core]") {
  auto m = matcher({"\n\nUser:"});
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
  auto hidden = matcher({"END"});
  CHECK(hidden.push("a END b") == "a ");
  CHECK(hidden.push("more").empty());
  CHECK(hidden.flush().empty());
  auto shown = matcher({"END"}, true);
  CHECK(shown.push("a END b") == "a END");
}

TEST_CASE("stop_matcher: without stops, or with an empty one, text passes through", "[core]") {
  auto empty = matcher({""});
  CHECK(empty.push("abc") == "abc");
  CHECK_FALSE(empty.matched());
  auto m = matcher({});
  CHECK(m.push("abc") == "abc");
  CHECK(m.flush().empty());
}

TEST_CASE("stop_matcher: a long periodic stop over long periodic text stays linear", "[core]") {
  const std::string stop(1000, 'a');
  auto m = matcher({stop + "b", stop + "c"});
  const std::clock_t begin = std::clock();  // processor time: the machine may be busy
  std::size_t shown = 0;
  for (int i = 0; i < 400'000; ++i) shown += m.push("a").size();
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  CHECK(shown == 400'000 - 1000);
  CHECK(seconds <
        2.0);  // 0.03 s when linear; re-scanning the held text would compare 400 million characters
  m.push("b");
  CHECK(m.matched() == stop + "b");
}

TEST_CASE("stop_matcher: boundaries keep a long periodic text linear", "[core]") {
  const std::string stop(1000, 'a');
  auto m = matcher({stop}, false, stop_boundary::word);
  const std::clock_t begin = std::clock();  // processor time: the machine may be busy
  std::size_t shown = 0;
  for (int i = 0; i < 400'000; ++i) shown += m.push("a").size();
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  CHECK(shown == 400'000);
  CHECK(seconds < 2.0);
}

TEST_CASE("stop_matcher: C062 what one token holds before a stop is shown", "[core]") {
  auto m = matcher({"\n"});
  CHECK(m.push("Hello") == "Hello");
  CHECK(m.push("!\n") == "!");
  CHECK(m.matched() == "\n");
}

TEST_CASE("stop_matcher: C065 of a stop that stands twice in one token the first counts",
          "[core]") {
  auto m = matcher({"\n"});
  CHECK(m.push("one.\n\n") == "one.");
  auto shown = matcher({"\n"}, true);
  CHECK(shown.push("one.\n\n") == "one.\n");
}

TEST_CASE("stop_matcher: C068 only what begins like a stop is held, however long the stop",
          "[core]") {
  auto m = matcher({"Z" + std::string(199, 'q')});
  CHECK(m.push("The") == "The");
  CHECK(m.push(" answer") == " answer");
  CHECK(m.push(" is Z") == " is ");
  CHECK(m.push("e") == "Ze");
}

TEST_CASE(
    "stop_matcher: a stop completed by text that may not match is plain text, a later one counts",
    "[core]") {
  auto m = matcher({"END"});
  CHECK(m.push("END EN", false) == "END ");
  CHECK(m.push("D").empty());  // begun before, completed after
  CHECK(m.matched() == "END");
}
