#include <catch2/catch.hpp>

#include "tests/actors/core/session/session_bench.hpp"

using namespace troupe::core;
using namespace troupe::core::test;
using session_effect::cancel_request;
using session_effect::deliver;
using session_effect::finish;
using session_effect::quit;

TEST_CASE("session: C061 text held for a stop is there when the answer ends before the stop",
          "[core]") {
  for (const auto why : {end_reason::end_token, end_reason::length}) {
    bench b(options({"TEN\nXYZ"}));
    b.token("ONE ");
    b.machine.on_delivered(b.out);
    b.token("TWO ");
    b.machine.on_delivered(b.out);
    b.token("TEN");
    CHECK(b.text() == "ONE TWO ");
    b.end(why);
    CHECK(b.text() == "ONE TWO TEN");
    CHECK(b.all<finish>().at(0).end.reason == why);
  }
}

TEST_CASE("session: C062 C065 a token that holds text and the stop shows the text, once",
          "[core]") {
  bench b(options({"\n"}));
  b.token("Hello");
  b.token("!\n\n");
  CHECK(b.text() == "Hello!");
  CHECK(b.all<finish>().at(0).end.stop_string == "\n");
}

TEST_CASE("session: C064 a stop that spans several tokens ends the text before it", "[core]") {
  bench b(options({"seven eight nine"}));
  for (const char* word : {" five", " six", " seven", " eight", " nine", " ten"}) b.token(word);
  CHECK(b.text() == " five six ");
  CHECK(b.all<finish>().at(0).end.usage.completion == 5);
}

TEST_CASE("session: C068 a long stop that the text does not begin delays nothing", "[core]") {
  bench b(options({std::string(200, 'z')}));
  for (const char* word : {"The", " answer", " is"}) {
    b.token(word);
    CHECK(b.all<deliver>().back().delta.text == word);
    b.machine.on_delivered(b.out);
  }
  CHECK(b.all<deliver>().size() == 3);  // none of them empty
}

TEST_CASE("session: a stop that awaits its boundary is decided by the next token or the end",
          "[core]") {
  auto o = options({"stop"});
  o.stop.boundary = troupe::stop_boundary::word;
  SECTION("the next token makes it part of a word") {
    bench b(o);
    b.token("do stop");
    CHECK_FALSE(b.machine.finished());
    b.token("s now");
    b.end();
    CHECK(b.text() == "do stops now");
    CHECK(b.all<finish>()[0].end.reason == end_reason::length);
  }
  SECTION("the next token leaves it alone, and is counted") {
    bench b(o);
    b.token("do stop");
    b.token(" now");
    CHECK(b.text() == "do ");
    CHECK(b.all<finish>().at(0).end.usage.completion == 2);
  }
  SECTION("the end of the text is a boundary") {
    bench b(o);
    b.token("do stop");
    b.end(end_reason::end_token);
    CHECK(b.text() == "do ");
    CHECK(b.all<finish>().at(0).end.reason == end_reason::stop_string);
  }
}

TEST_CASE("session: min_tokens holds back stop strings too", "[core]") {
  auto o = options({"x"});
  o.min_tokens = 2;
  bench b(o);
  b.token("ax");
  b.token("bx");
  CHECK_FALSE(b.machine.finished());
  b.token("cx");
  CHECK(b.text() == "axbxc");
  CHECK(b.all<finish>().at(0).end.usage.completion == 3);
}

namespace {

bench repeating(std::uint32_t ngram, std::uint32_t times, std::vector<std::string> stop = {}) {
  auto o = options(std::move(stop));
  o.repetition = troupe::repetition_stop{ngram, times};
  return bench(o);
}

/// How many of the tokens it took, 0 when they went through.
std::uint32_t stopped_after(std::uint32_t ngram, std::uint32_t times,
                            const std::vector<int>& tokens) {
  auto b = repeating(ngram, times);
  for (const int id : tokens) b.token(".", id);
  if (!b.machine.finished()) return 0;
  CHECK(b.all<finish>().at(0).end.reason == end_reason::stop_repetition);
  return b.all<finish>().at(0).end.usage.completion;
}

}  // namespace

TEST_CASE("session: the answer ends when its last n tokens stood m times in a row", "[core]") {
  CHECK(stopped_after(1, 3, {1, 2, 2, 3, 2, 2, 2, 2}) == 7);
  CHECK(stopped_after(2, 2, {1, 2, 1, 1, 2, 1}) == 0);
  CHECK(stopped_after(2, 2, {7, 1, 2, 1, 2}) == 5);
  CHECK(stopped_after(2, 3, {1, 2, 1, 2, 1, 2}) == 6);
  CHECK(stopped_after(3, 2, {5, 5, 5, 5, 5}) == 0);
  CHECK(stopped_after(3, 2, {5, 5, 5, 5, 5, 5}) == 6);  // a run of one token is a run of three, too
  CHECK(stopped_after(64, 2, std::vector<int>(128, 1)) == 128);
  CHECK(stopped_after(0, 2, {1, 1, 1}) == 0);
  CHECK(stopped_after(1, 1, {1, 1, 1}) == 0);
}

TEST_CASE("session: random answers stop where a search over all tokens says they repeat",
          "[core]") {
  std::uint32_t random = 1;
  const auto below = [&](std::uint32_t n) {
    return (random = random * 1664525u + 1013904223u) / 65536u % n;
  };
  int stops = 0;
  for (int round = 0; round < 3000; ++round) {
    const auto ngram = 1 + below(4), times = 2 + below(3);
    std::vector<int> tokens;
    for (auto n = below(40); n > 0; --n) tokens.push_back(static_cast<int>(below(2)));
    std::uint32_t expected = 0;
    for (std::uint32_t end = ngram * times; end <= tokens.size() && expected == 0; ++end) {
      bool equal = true;
      for (auto i = end - ngram * times; i + ngram < end; ++i)
        equal = equal && tokens[i] == tokens[i + ngram];
      if (equal) expected = end;
    }
    REQUIRE(stopped_after(ngram, times, tokens) == expected);
    stops += expected > 0 ? 1 : 0;
  }
  CHECK(stops > 500);
}

TEST_CASE(
    "session: a repetition ends the client at once, keeps its text and drops what comes later",
    "[core]") {
  auto b = repeating(1, 3, {"mama"});
  b.token("ma", 1);
  b.machine.on_delivered(b.out);
  for (const int id : {9, 9}) b.token("m", id);
  b.token("", 9, "\uFFFD");
  REQUIRE(b.all<finish>().size() == 1);
  CHECK(b.all<finish>()[0].end.reason == end_reason::stop_repetition);
  CHECK(b.text() == "mamm\uFFFD");  // held text and half a character come out
  REQUIRE(b.all<cancel_request>().size() == 1);
  CHECK(b.all<cancel_request>()[0].message.why == end_reason::stop_repetition);
  b.token("m", 9);
  b.end(end_reason::length, "late");
  CHECK(b.all<finish>().size() == 1);
  CHECK(b.all<finish>()[0].end.usage.completion == 4);
  CHECK(b.all<quit>().size() == 1);
}

TEST_CASE("session: a stop string comes before a repetition at the same token", "[core]") {
  SECTION("complete") {
    auto b = repeating(1, 2, {"xx"});
    b.token("x", 1);
    b.token("x", 1);
    CHECK(b.all<finish>().at(0).end.reason == end_reason::stop_string);
    CHECK(b.text().empty());
  }
  SECTION("decided for by the end") {
    auto b = repeating(1, 2, {"xx", "xxxy"});
    b.token("x", 1);
    b.token("x", 1);
    CHECK(b.all<finish>().at(0).end.reason == end_reason::stop_string);
  }
  SECTION("min_tokens holds both back") {
    auto o = options();
    o.min_tokens = 3;
    o.repetition = troupe::repetition_stop{1, 2};
    bench b(o);
    for (int i = 0; i < 3; ++i) b.token("x", 1);
    CHECK_FALSE(b.machine.finished());
    b.token("x", 1);
    CHECK(b.all<finish>().at(0).end.usage.completion == 4);
  }
}

TEST_CASE("session: low confidence is an answer like any other end", "[core]") {
  bench b(options({"abcd", "c"}));
  b.token("xa");
  b.end(end_reason::stop_confidence);
  CHECK(b.text() == "xa");
  CHECK(b.all<finish>().at(0).end.reason == end_reason::stop_confidence);
}

TEST_CASE(
    "session: cached tokens are reported at every end, those of the first token until `ended`",
    "[core]") {
  SECTION("ended") {
    bench b(options());
    b.token("a");
    b.end();
    CHECK(b.all<finish>().at(0).end.usage.cached == 2);
  }
  SECTION("a text stop") {
    bench b(options({"x"}));
    b.cached_by_tokens = 2;
    b.token("a");
    b.cached_by_tokens = 3;  // found again after a preemption
    b.token("x");
    CHECK(b.all<finish>().at(0).end.usage.cached == 2);
  }
}
