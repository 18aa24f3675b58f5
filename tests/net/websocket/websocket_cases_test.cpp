// Public failures of WebSocket servers, by their case ids: closes in every shape, pings, pulled
// cables, races, limits.
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <random>
#include <thread>

#include "tests/net/test_client.hpp"

using namespace troupe;
using namespace troupe::net::test;
using namespace std::chrono_literals;
using clock_type = std::chrono::steady_clock;

namespace {

const std::string create = R"({"type":"response.create","input":"hi"})";

std::string close_payload(int code, const std::string& reason = "") {
  return std::string{static_cast<char>(code >> 8), static_cast<char>(code & 255)} + reason;
}

script endless(std::chrono::milliseconds pause = 2ms) {
  script s;
  s.pieces = {"word "};
  s.repeat = 100'000;
  s.pause = pause;
  return s;
}

/// No generation runs, each one ever submitted was cancelled at most once, no socket is counted as
/// open.
void require_over(running_server& s) {
  REQUIRE(
      fake_engine::eventually([&] { return s.engine.live() == 0 && s.server_under_test.idle(); }));
  REQUIRE(fake_engine::eventually(
      [&] { return contains(s.counters.scrape(), "troupe_websocket_connections_active 0"); }));
  std::map<std::uint64_t, int> per_generation;
  for (const auto& cancel : s.engine.cancels()) ++per_generation[cancel.id];
  for (const auto& [id, count] : per_generation) CHECK(count == 1);
}

bool eventually_within(std::chrono::milliseconds limit, const std::function<bool()>& condition) {
  const auto until = clock_type::now() + limit;
  return fake_engine::eventually(condition) && clock_type::now() < until;
}

/// A frame of any shape: `head` is the first byte, with the final bit and the opcode.
std::string raw_frame(int head, const std::string& payload) {
  std::string f{static_cast<char>(head), static_cast<char>(0x80 | payload.size())};
  return f + std::string(4, '\0') + payload;
}

}  // namespace

TEST_CASE(
    "C019 websocket: a close in any shape ends the response, is answered and followed by no text",
    "[net]") {
  struct shape {
    const char* what;
    std::string payload;
    int answered_with;
  };
  const std::vector<shape> shapes{
      {"normal", close_payload(1000), 1000},
      {"without a status", "", 1000},
      {"going away, with a reason", close_payload(1001, "tab closed"), 1001},
      {"a code of the application", close_payload(4321), 4321},
      {"a reserved code", close_payload(1005), 1002},
      {"half a code", "\x03", 1002},
      {"a reason that is no UTF-8", close_payload(1000, "\xff\xfe"), 1002},
  };
  for (const auto& one : shapes) {
    CAPTURE(one.what);
    running_server s;
    s.engine.play(endless());
    test_client c{s.port};
    REQUIRE(c.upgrade().status == 101);
    c.send_ws(create);
    for (int i = 0; i < 14; ++i) c.read_ws();  // ten tokens and what comes before them
    c.send_ws(one.payload, 8);
    ws_frame f;
    while ((f = c.read_ws()).opcode != 8) CHECK(f.opcode == 1);  // what was on its way
    CHECK(f.close_code() == one.answered_with);
    // The client keeps its side of TCP open, as it must not, and nothing waits for that.
    CHECK(eventually_within(1s, [&] { return s.engine.live() == 0; }));
    CHECK(c.closed_by_peer());
    c.close();
    require_over(s);
    CHECK(s.engine.cancels().size() == 1);
  }
}

TEST_CASE(
    "C019 websocket: a broken frame ends the response, too, however the client holds its socket",
    "[net]") {
  const std::vector<std::pair<std::string, int>> broken{
      {std::string("\x81\x02hi"), 1002},                   // not masked
      {std::string("\xf1\x82\0\0\0\0hi", 8), 1002},        // reserved bits
      {std::string("\x83\x80\0\0\0\0", 6), 1002},          // no such opcode
      {std::string("\x80\x80\0\0\0\0", 6), 1002},          // goes on with nothing
      {std::string("\x09\x80\0\0\0\0", 6), 1002},          // a ping in pieces
      {std::string("\x81\x82\0\0\0\0\xff\xfe", 8), 1007},  // no UTF-8
      {std::string("\x82\x81\0\0\0\0x", 7), 1003},         // binary
  };
  for (const auto& [bytes, code] : broken)
    for (const auto where : {hold_at::queued, hold_at::decode}) {
      if (where == hold_at::queued && code == 1002 && bytes.size() != 4)
        continue;  // three shapes are enough
      CAPTURE(bytes, static_cast<int>(where));
      running_server s;
      script one;
      one.hold = where;
      s.engine.play(one);
      test_client c{s.port};
      c.upgrade();
      c.send_ws(create);
      if (where == hold_at::decode) c.read_until("Hello");
      REQUIRE(fake_engine::eventually([&] { return s.engine.submitted().size() == 1; }));
      c.send(bytes);
      ws_frame f;
      while ((f = c.read_ws()).opcode != 8) CHECK(f.opcode == 1);
      CHECK(f.close_code() == code);
      CHECK(eventually_within(1s, [&] { return s.engine.live() == 0; }));
      c.close();
      require_over(s);
      CHECK(s.engine.cancels().size() == 1);
    }
}

TEST_CASE(
    "C019 websocket: a close amid a fragmented message, or while others wait, ends everything",
    "[net]") {
  running_server s;
  s.engine.play(endless());
  test_client c{s.port};
  c.upgrade();
  for (int i = 0; i < 3; ++i) c.send_ws(create);  // one runs, two wait
  c.read_until("word");
  c.send(raw_frame(0x01, R"({"type":"respon)"));  // never finished
  c.send_ws(close_payload(1000), 8);
  CHECK(c.closed_by_peer());
  c.close();
  require_over(s);
  CHECK(s.engine.submitted().size() == 1);
  CHECK(s.engine.cancels().size() == 1);
}

TEST_CASE("C020 websocket: a pulled cable is noticed while tokens flow and while the request waits",
          "[net]") {
  for (const bool flows : {true, false}) {
    CAPTURE(flows);
    runtime_config config;
    config.ws_ping_interval_s = 0.3;
    running_server s{config};
    script one = endless();
    if (!flows) one.hold = hold_at::queued;
    s.engine.play(one);
    test_client c{s.port};
    c.upgrade();
    c.send_ws(create);
    if (flows) c.read_until("word");
    REQUIRE(fake_engine::eventually([&] { return s.engine.submitted().size() == 1; }));
    c.fall_silent();
    const auto pulled = clock_type::now();
    REQUIRE(fake_engine::eventually([&] { return s.engine.cancels().size() == 1; }));
    CHECK(clock_type::now() - pulled < 1500ms);  // at most two intervals, and the one it was in
    require_over(s);
  }
}

TEST_CASE("C020 disconnect: a pulled cable ends plain and streamed requests within the TCP limits",
          "[net]") {
  runtime_config config;
  config.tcp_user_timeout_s = 1;
  config.tcp_keepalive_s = 1;
  running_server s{config};
  s.engine.play([](std::size_t i) {
    script one = endless();
    if (i != 0) one.hold = hold_at::queued;  // nothing is ever sent: only the probes can tell
    return one;
  });
  test_client flowing{s.port}, quiet{s.port}, plain{s.port};
  flowing.send(post("/v1/completions", R"({"prompt":"a","stream":true,"max_tokens":100000})"));
  flowing.read_until("word");
  quiet.send(post("/v1/completions", R"({"prompt":"a","stream":true,"max_tokens":100000})"));
  plain.send(post("/v1/completions", R"({"prompt":"a"})"));
  REQUIRE(fake_engine::eventually([&] { return s.engine.submitted().size() == 3; }));
  for (auto* c : {&flowing, &quiet, &plain}) c->fall_silent();
  CHECK(fake_engine::eventually([&] { return s.engine.live() == 0; }));
  CHECK(s.engine.cancels().size() == 3);
  for (const auto& cancel : s.engine.cancels()) CHECK(cancel.why == core::end_reason::client_gone);
  CHECK(fake_engine::eventually([&] { return s.server_under_test.idle(); }));
}

TEST_CASE(
    "C022 websocket: pings, pongs or answers to pings keep a waiting client, silence does not",
    "[net]") {
  runtime_config config;
  config.ws_ping_interval_s = 0.15;
  running_server s{config};
  std::atomic<bool> go = false;
  s.engine.play([&](std::size_t) {
    script one;
    if (!go) one.hold = hold_at::queued;
    return one;
  });
  test_client pings{s.port}, pongs{s.port}, texts{s.port}, silent{s.port};
  for (auto* c : {&pings, &pongs, &texts, &silent}) {
    c->upgrade();
    c->send_ws(create);
  }
  for (int i = 0; i < 12; ++i) {  // 1.2 s: four times the limit of 0.3 s
    pings.send_ws("", 9);
    pongs.send_ws("", 10);
    texts.send_ws(R"({"type":"response.cancel","response_id":"resp_unknown"})");
    std::this_thread::sleep_for(100ms);
  }
  CHECK(silent.closed_by_peer());
  CHECK(s.engine.cancels().size() == 1);
  go = true;
  for (auto* c : {&pings, &pongs, &texts}) {
    c->send_ws(R"({"type":"response.cancel"})");
    c->send_ws(create);
    CHECK_NOTHROW(c->read_until("response.completed"));
  }
  // An idle client that only answers the server's pings stays, too.
  for (int i = 0; i < 4; ++i) {
    ws_frame f;
    while ((f = pings.read_ws()).opcode != 9) REQUIRE(f.opcode != 8);
    pings.send_ws(f.payload, 10);
  }
}

TEST_CASE("C023 websocket: while tokens are written pings are answered and a close is seen",
          "[net]") {
  for (const auto pause : {0ms, 2ms}) {  // as fast as they go, and at a model's pace
    CAPTURE(pause.count());
    running_server s;
    s.engine.play(endless(pause));
    test_client c{s.port};
    c.upgrade();
    c.send_ws(create);
    c.read_until("word");
    for (int i = 0; i < 5; ++i) {
      const std::string payload = "ping " + std::to_string(i);
      const auto sent = clock_type::now();
      c.send_ws(payload, 9);
      ws_frame f;
      int texts = 0;
      while ((f = c.read_ws()).opcode != 10) ++texts;
      CHECK(f.payload == payload);
      CHECK(clock_type::now() - sent < 200ms);
      CHECK(texts < 2000);
    }
    c.send_ws(close_payload(1000), 8);
    ws_frame f;
    while ((f = c.read_ws()).opcode != 8) CHECK(f.opcode == 1);
    c.close();
    require_over(s);
    CHECK(s.engine.cancels().size() == 1);
  }
}

TEST_CASE(
    "C025 websocket: close, idle limit and end of the answer within a millisecond tear down once",
    "[net]") {
  runtime_config config;
  config.ws_ping_interval_s = 0.002;
  config.threads_http = 2;
  running_server s{config};
  s.engine.play([](std::size_t i) {
    script one;
    one.pause = std::chrono::milliseconds{i % 2};
    return one;
  });
  std::mt19937 random{25};
  for (int round = 0; round < 400; ++round) {
    test_client c{s.port};
    if (c.upgrade().status != 101) continue;  // 4 ms of silence may be over already
    if (!c.try_send(raw_frame(0x81, create))) continue;
    std::this_thread::sleep_for(std::chrono::microseconds{random() % 5000});
    switch (random() % 4) {
      case 0:
        c.try_send(raw_frame(0x88, close_payload(1000)));
        break;
      case 1:
        c.try_send(raw_frame(0x88, close_payload(1000)) + raw_frame(0x88, ""));
        c.reset();
        break;
      case 2:
        c.try_send(raw_frame(0x81, R"({"type":"response.dance"})") + raw_frame(0x88, ""));
        break;
      default:
        break;  // the limit alone
    }
  }
  require_over(s);
  CHECK(s.engine.submitted().size() > 100);
  test_client next{s.port};
  next.send(post("/v1/completions", R"({"prompt":"a"})"));
  CHECK(next.read_reply().status == 200);
}

TEST_CASE(
    "C026 websocket: messages over the limit close with 1009, in one piece or in many, and "
    "other connections go on",
    "[net]") {
  runtime_config config;
  config.max_message_bytes = 1 << 20;
  running_server s{config};
  test_client neighbour{s.port};
  neighbour.upgrade();
  const auto closed_with = [&](test_client& c) {
    ws_frame f;
    while ((f = c.read_ws()).opcode != 8) REQUIRE(f.opcode == 1);
    return f.close_code();
  };
  {
    test_client c{s.port};  // 32 MiB announced, as much of it sent as the server takes
    c.upgrade();
    std::string head{'\x81', '\xff'};
    const std::uint64_t size = 32u << 20;
    for (int shift = 56; shift >= 0; shift -= 8) head += static_cast<char>((size >> shift) & 255);
    c.try_send(head + std::string(4, '\0') + std::string(64 << 10, ' '));
    CHECK(closed_with(c) == 1009);
  }
  {
    test_client c{s.port};  // a length that no machine has
    c.upgrade();
    c.try_send("\x81\xff" + std::string(1, '\x7f') + std::string(7, '\xff') + std::string(4, '\0'));
    CHECK(closed_with(c) == 1009);
  }
  {
    test_client few{s.port},
        many{s.port};  // fragments of one byte: one message of spaces and a request
    few.upgrade(), many.upgrade();
    std::string all = raw_frame(0x01, " ");
    for (int i = 0; i < 4000; ++i) all += raw_frame(0x00, " ");
    few.send(all + raw_frame(0x80, create));
    CHECK_NOTHROW(few.read_until("response.completed"));
    for (int i = 0; i < 96'000; ++i) all += raw_frame(0x00, " ");
    many.try_send(all);
    CHECK(closed_with(many) == 1009);
  }
  {
    test_client c{s.port};  // fragments that add up to more than the limit
    c.upgrade();
    c.try_send(raw_frame(0x01, "x"));
    const std::string piece = raw_frame(0x00, std::string(125, 'x'));
    std::string many;
    for (int i = 0; i < 1000; ++i) many += piece;
    for (int i = 0; i < 20 && c.try_send(many); ++i) continue;
    CHECK(c.closed_by_peer());
  }
  neighbour.send_ws(create);
  CHECK_NOTHROW(neighbour.read_until("response.completed"));
  CHECK(s.engine.submitted().size() == 2);
}

TEST_CASE(
    "C043 websocket: a cancel that names another connection's response, or a finished one, does "
    "nothing",
    "[net]") {
  running_server s;
  s.engine.play(endless());
  test_client mine{s.port}, other{s.port};
  mine.upgrade();
  other.upgrade();
  mine.send_ws(create);
  const auto begin = mine.read_until("word");
  const std::size_t at = begin.find("resp_");
  const std::string id = begin.substr(at, begin.find('"', at) - at);
  other.send_ws(create);
  other.read_until("word");
  other.send_ws(R"({"type":"response.cancel","response_id":")" + id + "\"}");
  other.send_ws("settled", 9);
  while (other.read_ws().opcode != 10) continue;
  CHECK(s.engine.cancels().empty());
  CHECK(s.engine.live() == 2);
  for (int i = 0; i < 2; ++i)
    mine.send_ws(R"({"type":"response.cancel","response_id":")" + id + "\"}");
  mine.read_until("response.incomplete");
  const auto begun =
      s.engine.cancels()
          .size();  // the second may have come before the end: the engine takes it once
  CHECK((begun == 1 || begun == 2));
  mine.send_ws(R"({"type":"response.cancel","response_id":")" + id + "\"}");
  mine.send_ws("settled", 9);
  while (mine.read_ws().opcode != 10) continue;
  CHECK(s.engine.cancels().size() == begun);
  CHECK(s.engine.live() == 1);
}
