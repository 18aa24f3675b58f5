#include <catch2/catch.hpp>
#include <set>

#include "tests/actors/core/session/session_bench.hpp"

using namespace troupe::core;
using namespace troupe::core::test;
using session_effect::cancel_request;
using session_effect::deliver;
using session_effect::finish;
using session_effect::quit;
using session_effect::resumed;
using session_effect::stalled;

TEST_CASE("session: one delta at a time, what comes meanwhile travels together", "[core]") {
  bench b(options());
  CHECK(b.all<session_effect::accepted>().at(0).prompt_tokens == 3);
  b.token("a");
  b.token("b");
  b.token("c");
  REQUIRE(b.all<deliver>().size() == 1);
  CHECK(b.all<deliver>()[0].delta.text == "a");
  CHECK(b.all<deliver>()[0].delta.completion_tokens == 1);
  b.machine.on_delivered(b.out);
  REQUIRE(b.all<deliver>().size() == 2);
  CHECK(b.all<deliver>()[1].delta.text == "bc");
  CHECK(b.all<deliver>()[1].delta.completion_tokens == 3);
  b.machine.on_delivered(b.out);
  b.machine.on_delivered(b.out);
  CHECK(b.all<deliver>().size() == 2);
  b.token("d");
  b.token("e");
  b.end(end_reason::length, "!");
  REQUIRE(b.all<finish>().size() == 1);
  const auto end = b.all<finish>()[0].end;
  CHECK(end.last.text == "e!");
  CHECK(end.usage.prompt == 3);
  CHECK(end.usage.completion == 5);
  CHECK(b.text() == "abcde!");
  CHECK(b.all<quit>().size() == 1);
}

TEST_CASE("session: an end token is counted but is neither text nor a piece", "[core]") {
  auto o = options();
  o.want_logprobs = true;
  bench b(o);
  b.token("a", 10);
  decoded_token end_token;
  end_token.text = "</s>";
  end_token.piece.token = 2;
  end_token.is_end = true;
  b.machine.on_token(end_token, 5, b.out);
  b.end(end_reason::end_token);
  CHECK(b.text() == "a");
  CHECK(b.pieces() == std::vector<int>{10});
  CHECK(b.all<finish>()[0].end.usage.completion == 2);
}

TEST_CASE("session: a stop string finishes the client at once and drops what comes later",
          "[core]") {
  bench b(options({"STOP"}));
  b.token("one ST");
  b.token("OP two");
  REQUIRE(b.all<finish>().size() == 1);
  CHECK(b.all<finish>()[0].end.reason == end_reason::stop_string);
  CHECK(b.all<finish>()[0].end.stop_string == "STOP");
  CHECK(b.all<finish>()[0].end.usage.completion == 2);
  CHECK(b.text() == "one ");
  REQUIRE(b.all<cancel_request>().size() == 1);
  CHECK(b.all<cancel_request>()[0].message.why == end_reason::stop_string);
  CHECK(b.all<cancel_request>()[0].message.seen_at == 100);
  CHECK(b.machine.finished());
  CHECK(b.all<quit>().empty());
  b.token("three");
  b.machine.on_delivered(b.out);
  b.machine.on_cancel(end_reason::client_gone, 7, b.out);
  CHECK(b.all<deliver>().size() == 1);
  CHECK(b.all<cancel_request>().size() == 1);
  b.end(end_reason::stop_string);
  b.end(end_reason::stop_string);
  CHECK(b.all<finish>().size() == 1);
  CHECK(b.all<quit>().size() == 1);
}

TEST_CASE("session: a stop completed only by the end or its tail still counts", "[core]") {
  SECTION("by the tail") {
    bench b(options({"xyz"}));
    b.token("axy");
    b.end(end_reason::length, "z");
    CHECK(b.text() == "a");
    CHECK(b.all<finish>()[0].end.reason == end_reason::stop_string);
  }
  SECTION("by the end deciding for the shorter") {
    bench b(options({"abcd", "c"}));
    b.token("abc");
    b.end(end_reason::end_token);
    CHECK(b.text() == "ab");
    CHECK(b.all<finish>()[0].end.stop_string == "c");
  }
  SECTION("a time-out keeps its own reason") {
    bench b(options({"abcd", "c"}));
    b.token("abc");
    b.end(end_reason::total_timeout);
    CHECK(b.text() == "ab");
    CHECK(b.all<finish>()[0].end.reason == end_reason::total_timeout);
    CHECK_FALSE(b.all<finish>()[0].end.stop_string);
  }
  SECTION("held text that became no stop is shown") {
    bench b(options({"xyz"}));
    b.token("axy");
    b.end();
    CHECK(b.text() == "axy");
    CHECK(b.all<finish>()[0].end.reason == end_reason::length);
  }
}

TEST_CASE("session: pieces come with or after their text and never for text behind a stop",
          "[core]") {
  auto o = options({"STOP"});
  o.want_logprobs = true;
  SECTION("held back with the text") {
    bench b(o);
    b.token("hi S", 1);
    CHECK(b.all<deliver>().at(0).delta.text == "hi ");
    CHECK(b.all<deliver>().at(0).delta.tokens.empty());
    b.machine.on_delivered(b.out);
    b.token("o", 2);
    CHECK(b.all<deliver>().at(1).delta.text == "So");
    CHECK(b.all<deliver>().at(1).delta.tokens.size() == 2);
  }
  SECTION("half a character waits for the other half") {
    bench b(o);
    b.token("a", 1);
    b.machine.on_delivered(b.out);
    b.token("", 2);
    CHECK(b.all<deliver>().size() == 1);
    b.token("\xc3\xa9", 3);
    CHECK(b.all<deliver>().at(1).delta.tokens.size() == 2);
  }
  SECTION("the stop's own tokens are dropped, one that begins before it is not") {
    bench b(o);
    b.token("hi", 1);
    b.token("! ST", 2);
    b.token("O", 3);
    b.token("P and", 4);
    b.token("more", 5);
    b.end(end_reason::stop_string);
    CHECK(b.text() == "hi! ");
    CHECK(b.pieces() == std::vector<int>{1, 2});
    CHECK(b.all<finish>()[0].end.usage.completion == 4);
  }
  SECTION("the stop is shown, so are its tokens") {
    o.stop.include_stop = true;
    bench b(o);
    b.token("hi ST", 1);
    b.token("OP", 2);
    CHECK(b.text() == "hi STOP");
    CHECK(b.pieces() == std::vector<int>{1, 2});
  }
  SECTION("at the end all are out") {
    bench b(o);
    b.token("hi", 1);
    b.token("", 2);
    b.token("ST", 3);
    b.end();
    CHECK(b.text() == "hiST");
    CHECK(b.pieces() == std::vector<int>{1, 2, 3});
  }
}

TEST_CASE(
    "session: a reader too far behind is reported to the scheduler, once until it has caught up",
    "[core]") {
  auto o = options();
  o.outbound_bytes_max = 100;
  bench b(o);
  b.token("x");  // outstanding from here on
  for (int i = 0; i < 10; ++i) b.token("0123456789");
  CHECK_FALSE(b.machine.finished());
  CHECK(b.all<stalled>().empty());
  b.token("0");
  b.token("1");  // the step in flight
  CHECK(b.all<stalled>().size() == 1);
  b.machine.on_delivered(b.out);
  CHECK(b.all<resumed>().size() == 1);
  for (int i = 0; i < 11; ++i) b.token("0123456789");
  CHECK(b.all<stalled>().size() == 2);
  b.end(end_reason::slow_reader);
  CHECK(b.all<cancel_request>().empty());
  REQUIRE(b.all<finish>().size() == 1);
  CHECK(b.all<finish>()[0].end.reason == end_reason::slow_reader);
  CHECK(b.text().size() == 1 + 10 * 10 + 2 + 110);  // nothing of the answer is lost
}

TEST_CASE("session: no stall is reported for a session that has ended or was cancelled", "[core]") {
  auto o = options();
  o.outbound_bytes_max = 10;
  bench b(o);
  b.token("x");
  b.machine.on_cancel(end_reason::cancelled, 5, b.out);
  b.token("0123456789012345");
  CHECK(b.all<stalled>().empty());
  b.end(end_reason::cancelled);
  b.machine.on_delivered(b.out);
  CHECK(b.all<resumed>().empty());
}

TEST_CASE("session: text held back for a possible stop is not the reader's fault", "[core]") {
  auto o = options();
  o.outbound_bytes_max = 10;
  o.want_logprobs = true;
  o.stop.stops = {std::string(50, 'a') + "b"};
  bench b(o);
  b.token("x");
  for (int i = 0; i < 40; ++i) b.token("a");  // pieces and text wait for the stop
  CHECK(b.all<stalled>().empty());
}

TEST_CASE("session: pieces count against the reader's limit, and delivered ones no longer do",
          "[core]") {
  auto o = options();
  o.want_logprobs = true;
  o.outbound_bytes_max = 1000;
  bench b(o);
  for (int i = 0; i < 200; ++i) {
    b.token("ab", i);
    b.machine.on_delivered(b.out);
  }
  CHECK(b.all<stalled>().empty());
  for (int i = 0; i < 30; ++i) b.token("ab", i);
  CHECK(b.all<stalled>().size() == 1);
}

TEST_CASE("session: a client that is gone gets nothing but its end, when the scheduler says so",
          "[core]") {
  bench b(options());
  b.token("a");
  b.token("b");
  b.machine.on_cancel(end_reason::client_gone, 55, b.out);
  b.machine.on_cancel(end_reason::cancelled, 66, b.out);
  REQUIRE(b.all<cancel_request>().size() == 1);
  CHECK(b.all<cancel_request>()[0].message.seen_at == 55);
  CHECK(b.all<cancel_request>()[0].message.request == request_id{7});
  b.token("c");
  b.machine.on_delivered(b.out);
  CHECK(b.all<deliver>().size() == 1);
  CHECK(b.all<finish>().empty());
  b.end(end_reason::client_gone, "tail");
  CHECK(b.all<finish>().size() == 1);
  CHECK(b.all<finish>()[0].end.last.text.empty());
  CHECK(b.all<quit>().size() == 1);
}

TEST_CASE("session: a cancel by id shows what came before it and no token after", "[core]") {
  bench b(options());
  b.token("a");
  b.token("b");
  b.machine.on_cancel(end_reason::cancelled, 55, b.out);
  b.token("c");
  b.end(end_reason::cancelled, "tail");
  CHECK(b.text() == "ab");
  CHECK(b.all<finish>()[0].end.usage.completion == 2);
  CHECK(b.all<finish>()[0].end.reason == end_reason::cancelled);
}

TEST_CASE("session: an end before the submit needs no scheduler and is told once", "[core]") {
  const auto why =
      GENERATE(end_reason::cancelled, end_reason::client_gone, end_reason::queue_timeout,
               end_reason::first_token_timeout, end_reason::total_timeout);
  session_machine machine(options());
  session_effects out;
  machine.on_unsubmitted_end(why, out);
  machine.on_unsubmitted_end(end_reason::cancelled, out);
  machine.on_cancel(end_reason::cancelled, 66, out);
  machine.on_engine_down(out);
  REQUIRE(out.size() == 2);
  CHECK(std::get<finish>(out[0]).end.reason == why);
  CHECK(std::holds_alternative<quit>(out[1]));
  CHECK(machine.finished());
}

TEST_CASE(
    "session: a client that cancelled gets the cancel's reason when the answer ends by itself "
    "meanwhile",
    "[core]") {
  const auto why =
      GENERATE(end_reason::cancelled, end_reason::client_gone, end_reason::slow_reader);
  SECTION("instead of any end of its own") {
    const auto natural = GENERATE(end_reason::length, end_reason::end_token, end_reason::stop_token,
                                  end_reason::stop_confidence);
    bench b(options());
    b.token("a");
    b.machine.on_cancel(why, 55, b.out);
    b.token("b");
    ended e;
    e.request = request_id{7};
    e.why = natural;
    if (natural == end_reason::stop_token) e.stop_token = 9;
    b.machine.on(e, "", b.out);
    CHECK(b.text() == "a");
    CHECK(b.all<finish>()[0].end.reason == why);
    CHECK_FALSE(b.all<finish>()[0].end.stop_token);
    CHECK(b.all<finish>()[0].end.usage.completion == 1);
  }
  SECTION("not instead of a failure or a deadline, whichever was first at the scheduler") {
    const auto other =
        GENERATE(end_reason::step_failed, end_reason::total_timeout, end_reason::shutdown);
    bench b(options());
    b.token("a");
    b.machine.on_cancel(why, 55, b.out);
    b.end(other);
    CHECK(b.all<finish>()[0].end.reason == other);
  }
}

TEST_CASE("session: the echoed prompt is its own delta before any token", "[core]") {
  auto o = options({"STOP"});
  o.want_logprobs = true;
  bench b(o);
  b.machine.on_prompt("say STOP",
                      {token_piece{1, "say", {}, {}}, token_piece{2, " STOP", -0.5f, {}}}, b.out);
  REQUIRE(b.all<deliver>().size() == 1);
  CHECK(b.all<deliver>()[0].delta.prompt);
  CHECK(b.all<deliver>()[0].delta.text == "say STOP");
  CHECK(b.all<deliver>()[0].delta.tokens.size() == 2);
  b.token("a", 3);
  b.machine.on_delivered(b.out);
  CHECK_FALSE(b.all<deliver>().at(1).delta.prompt);
  CHECK(b.all<deliver>().at(1).delta.text == "a");
}

TEST_CASE("session: a refusal and an engine that went down are terminal once", "[core]") {
  SECTION("refused") {
    session_machine m(options());
    session_effects out;
    m.on(refused{request_id{7}, refusal::queue_full, "full"}, out);
    m.on_engine_down(out);
    REQUIRE(out.size() == 2);
    const auto& end = std::get<finish>(out[0]).end;
    CHECK(end.reason == end_reason::refused);
    CHECK(end.why_refused == refusal::queue_full);
    CHECK(end.message == "full");
    CHECK(std::holds_alternative<quit>(out[1]));
  }
  SECTION("engine down") {
    bench b(options());
    b.token("a");
    b.token("b");
    b.machine.on_engine_down(b.out);
    b.end();
    REQUIRE(b.all<finish>().size() == 1);
    CHECK(b.all<finish>()[0].end.reason == end_reason::engine_failed);
    CHECK(b.text() == "ab");
    CHECK(b.all<quit>().size() == 1);
  }
  SECTION("a stop that matched just before keeps its end") {
    bench b(options({"x"}));
    b.token("ax");
    b.machine.on_engine_down(b.out);
    CHECK(b.all<finish>().size() == 1);
    CHECK(b.all<finish>()[0].end.reason == end_reason::stop_string);
    CHECK(b.all<quit>().size() == 1);
  }
}

TEST_CASE("outcome: every end reason has a name of its own for the log", "[core]") {
  std::set<std::string> names;
  for (int i = 0; i < end_reason_count; ++i) names.insert(name_of(static_cast<end_reason>(i)));
  CHECK(names.size() == static_cast<std::size_t>(end_reason_count));
  CHECK(names.count("stop_confidence") == 1);
  CHECK(names.count("stop_repetition") == 1);
  CHECK(names.count("unknown") == 0);
}
