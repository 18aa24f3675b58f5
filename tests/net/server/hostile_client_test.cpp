// Clients that cost more than they may: long JSON, pings whose answers are not read, messages that
// trickle, connections that say nothing, answers left unread. The limits of time in here are
// generous: what is mended took a multiple.
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <thread>
#include <vector>

#include "tests/net/test_client.hpp"

using namespace troupe;
using namespace troupe::net::test;
using namespace std::chrono_literals;

namespace {

/// Some 4 MB that are slow to parse as JSON, in an unknown field.
std::string slow_json(const std::string& before) {
  std::string json = "{" + before + ",\"unknown\":[";
  while (json.size() < 3'900'000) json += R"({"a":[[[1]]]},)";
  return json + "0]}";
}

/// Nothing of what was sent to the port waits in the kernel's queues, on either side.
bool all_is_read(std::uint16_t port) {
  std::ifstream table("/proc/net/tcp");
  std::string line;
  std::getline(table, line);  // the heading
  while (std::getline(table, line)) {
    unsigned local = 0, remote = 0, state = 0, unsent = 0, unread = 0;
    if (std::sscanf(line.c_str(), "%*d: %*8x:%x %*8x:%x %x %x:%x", &local, &remote, &state, &unsent,
                    &unread) != 5)
      return false;
    constexpr unsigned established = 1;
    if (state != established || (local != port && remote != port)) continue;
    if (unsent > 0 || (local == port && unread > 0)) return false;
  }
  return true;
}

script held() {
  script s;
  s.hold = hold_at::decode;
  return s;
}

/// Small buffers, and no other limit that could end the connection in time.
runtime_config patient() {
  runtime_config config;
  config.send_buffer_bytes = 64 * 1024;
  config.client_send_timeout_s = config.client_drain_timeout_s = config.tcp_user_timeout_s = 60;
  return config;
}

std::string frames(int opcode, const std::string& payload, int times) {
  std::string one{static_cast<char>(0x80 | opcode), static_cast<char>(0x80 | payload.size())};
  one += std::string(4, '\0') + payload;
  std::string all;
  while (times-- > 0) all += one;
  return all;
}

const std::string create = R"({"type":"response.create","input":"hi"})";

/// A response runs, and its client reads nothing.
void begin(running_server& s, test_client& c) {
  REQUIRE(c.upgrade().status == 101);
  c.send_ws(create);
  REQUIRE(fake_engine::eventually([&] { return s.engine.deltas_sent() > 0; }));
}

void check_ended(running_server& s) {
  REQUIRE(fake_engine::eventually([&] { return s.engine.cancels().size() == 1; }));
  CHECK(fake_engine::eventually([&] {
    return s.engine.live() == 0 && s.server_under_test.idle() &&
           contains(s.counters.scrape(), "troupe_websocket_connections_active 0");
  }));
}

}  // namespace

TEST_CASE("hostile client: long JSON of some holds up no others", "[net]") {
  running_server s;
  std::vector<std::unique_ptr<test_client>> many;
  const std::string bytes = post("/v1/completions", slow_json(R"("prompt":7)"));
  for (int i = 0; i < 12; ++i) {
    many.push_back(std::make_unique<test_client>(s.port));
    many.back()->send(bytes.substr(0, bytes.size() - 1));
  }
  test_client other{s.port};
  std::this_thread::sleep_for(300ms);  // so that only the last bytes are still to come
  for (auto& c : many) c->send(bytes.substr(bytes.size() - 1));
  std::this_thread::sleep_for(10ms);
  other.send(get("/health"));
  CHECK(other.read_reply().status == 200);
  int answered = 0;
  for (auto& c : many) answered += c->read_some(1, 0ms) > 0;
  CHECK(answered < 12);
  for (auto& c : many) CHECK_NOTHROW(c->read_until("must be a string or an array"));
}

TEST_CASE("hostile client: one that leaves while its JSON waits to be read starts nothing",
          "[net]") {
  for (const bool half : {false, true}) {
    CAPTURE(half);
    running_server s;
    std::vector<std::unique_ptr<test_client>> many;
    const std::string bytes = post("/v1/completions", slow_json(R"("prompt":"a")"));
    for (int i = 0; i < 12; ++i) {
      many.push_back(std::make_unique<test_client>(s.port));
      many.back()->send(bytes.substr(0, bytes.size() - 1));
    }
    // A reset takes with it what is not read yet.
    CHECK(fake_engine::eventually([&] { return all_is_read(s.port); }));
    for (auto& c : many) c->send(bytes.substr(bytes.size() - 1));
    CHECK(fake_engine::eventually([&] { return all_is_read(s.port); }));
    CHECK(many[0]->read_reply().status == 200);
    half ? many.back()->half_close() : many.back()->reset();
    for (std::size_t i = 1; i + 1 < many.size(); ++i) CHECK(many[i]->read_reply().status == 200);
    CHECK(fake_engine::eventually([&] { return s.server_under_test.idle(); }));
    CHECK(s.engine.submitted().size() == 11);
    CHECK(fake_engine::eventually([&] {
      return contains(s.counters.scrape(),
                      R"(troupe_client_disconnects_total{phase="queued",transport="http"} 1)");
    }));
  }
}

TEST_CASE("hostile client: long messages of a WebSocket stay in order with short ones", "[net]") {
  running_server s;
  test_client c{s.port};
  REQUIRE(c.upgrade().status == 101);
  c.send_ws(slow_json(R"("type":"response.create","input":"first")"));
  c.send_ws(R"({"type":"response.create","input":"second"})");
  c.send_ws("{");
  c.read_until("invalid_json");
  REQUIRE(fake_engine::eventually([&] { return s.engine.submitted().size() == 2; }));
  const auto seen = s.engine.submitted();
  CHECK(std::get<std::vector<core::chat_message>>(seen[0].prompt)[0].content == "first");
  CHECK(std::get<std::vector<core::chat_message>>(seen[1].prompt)[0].content == "second");
  CHECK(
      fake_engine::eventually([&] { return s.engine.live() == 0 && s.server_under_test.idle(); }));
}

TEST_CASE(
    "hostile client: long messages of one WebSocket hold up no others, and leaving drops them",
    "[net]") {
  running_server s;
  std::vector<std::unique_ptr<test_client>> many;
  const std::string message = slow_json(R"("type":"response.create","input":"a")");
  test_client other{s.port};
  for (int i = 0; i < 10; ++i) {
    many.push_back(std::make_unique<test_client>(s.port));
    REQUIRE(many.back()->upgrade().status == 101);
  }
  for (auto& c : many) c->send_ws(message);
  for (auto& c : many) c->reset();
  other.send(get("/health"));
  CHECK(other.read_reply().status == 200);
  CHECK(fake_engine::eventually([&] {
    return s.server_under_test.idle() &&
           contains(s.counters.scrape(), "troupe_websocket_connections_active 0");
  }));
  CHECK(s.engine.submitted().size() < 10);
  CHECK(s.engine.live() == 0);
}

TEST_CASE("hostile client: pings whose answers are not read hide no leaving", "[net]") {
  for (const std::string how : {"half-close", "close frame", "stays"}) {
    CAPTURE(how);
    running_server s{patient()};
    s.engine.play(held());
    test_client c{s.port, 4096};
    begin(s, c);
    c.send(frames(9, std::string(125, 'p'), 1000));
    if (how == "close frame") c.send(frames(8, "\x03\xe8", 1));
    if (how == "half-close") c.half_close();
    check_ended(s);
  }
}

TEST_CASE("hostile client: a half-close behind pings that a shut window lets trickle is seen",
          "[net]") {
  running_server s{patient()};
  s.engine.play(held());
  test_client c{s.port, 2048};
  begin(s, c);
  c.send_some(frames(9, std::string(120, 'p'), 2400),
              1s);  // an answer that cannot leave hides the end of the stream
  c.half_close();
  check_ended(s);
}

TEST_CASE("hostile client: floods of tiny frames end, and what they ran with them", "[net]") {
  for (const int opcode : {0, 9, 10}) {
    CAPTURE(opcode);
    const bool fragments = opcode == 0;
    running_server s{patient()};
    s.engine.play(held());
    test_client c{s.port}, neighbour{s.port};
    begin(s, c);
    std::string flood;  // one message in fragments of a byte, or empty pings or pongs
    if (fragments) flood = std::string("\x01\x81\0\0\0\0x", 7);
    const std::string one = fragments ? std::string("\0\x81\0\0\0\0x", 7) : frames(opcode, "", 1);
    while (flood.size() < 60'000) flood += one;
    c.send(flood);
    check_ended(s);
    CHECK(c.closed_by_peer());
    REQUIRE(neighbour.upgrade().status == 101);
    for (int i = 0; i < 500; ++i) neighbour.send(frames(9, "", 1));
    neighbour.send_ws(R"({"type":"nonsense"})");
    while (neighbour.read_ws().opcode != 1) continue;
  }
}

TEST_CASE("hostile client: one that stays behind a broken frame loses its place", "[net]") {
  running_server s{patient()};
  s.engine.play(held());
  test_client idle{s.port}, busy{s.port};
  REQUIRE(idle.upgrade().status == 101);
  begin(s, busy);
  for (test_client* c : {&idle, &busy}) c->send(frames(3, "", 1));  // no such opcode
  check_ended(s);
}

TEST_CASE("hostile client: a half-close behind one ping and a full window is seen", "[net]") {
  for (const bool ping : {true, false}) {
    CAPTURE(ping);
    running_server s{patient()};
    script endless;
    endless.pieces = {std::string(8192, 'x')};
    endless.repeat = 100'000;
    s.engine.play(endless);
    test_client c{s.port, 4096};
    begin(s, c);
    std::size_t sent = 0;
    for (int still = 0; still < 20; std::this_thread::sleep_for(10ms)) {
      still = s.engine.deltas_sent() == sent ? still + 1 : 0;
      sent = s.engine.deltas_sent();
    }
    if (ping) c.send(frames(9, "x", 1));
    std::this_thread::sleep_for(20ms);
    c.half_close();
    check_ended(s);
    CHECK(s.engine.cancels()[0].why == core::end_reason::client_gone);
  }
}

TEST_CASE(
    "hostile client: a message that trickles meets the time of a body, a client that talks does "
    "not",
    "[net]") {
  auto config = patient();
  config.body_timeout_s = 0.4;
  running_server s{config};
  test_client slow{s.port}, talks{s.port};
  REQUIRE(slow.upgrade().status == 101);
  REQUIRE(talks.upgrade().status == 101);
  std::string message{'\x81', '\xfe', '\x10', '\0',
                      '\0',   '\0',   '\0',   '\0'};  // 4,096 bytes are to come
  bool open = true;
  for (int i = 0; i < 200 && open; ++i) {
    open = slow.try_send(i == 0 ? message : "x") && !slow.read_some(1, 10ms);
    talks.send_ws(R"({"type":"response.steer"})");
    CHECK(talks.read_ws().opcode == 1);
  }
  CHECK_FALSE(open);
  CHECK(slow.closed_by_peer());
}

TEST_CASE("hostile client: a peer that answers no close is gone after seconds", "[net]") {
  running_server s{patient()};
  test_client c{s.port};
  REQUIRE(c.upgrade().status == 101);
  c.send_ws("\x01", 2);  // binary: closed with 1003, which this client never answers
  CHECK(c.read_ws().close_code() == 1003);
  CHECK(fake_engine::eventually(
      [&] { return contains(s.counters.scrape(), "troupe_websocket_connections_active 0"); }));
}

TEST_CASE("hostile client: connections that are idle make room for new ones, the oldest first",
          "[net]") {
  runtime_config config;
  config.max_connections = 3;
  running_server s{config};
  s.engine.play(held());
  test_client busy{s.port}, silent{s.port};
  busy.send(post("/v1/completions", R"({"prompt":"a","stream":true})"));
  busy.read_until("Hello");
  std::this_thread::sleep_for(5ms);
  test_client kept{s.port};
  kept.send(get("/health"));
  CHECK(kept.read_reply().status == 200);
  test_client late{s.port};
  late.send(get("/health"));
  CHECK(late.read_reply().status == 200);
  CHECK(silent.closed_by_peer());
  kept.send(get("/health"));
  CHECK(kept.read_reply().status == 200);
  CHECK(s.engine.cancels().empty());
}

TEST_CASE("hostile client: connections that began a request or do not read an answer make room too",
          "[net]") {
  auto config = patient();
  config.max_connections = 3;
  running_server s{config};
  const auto next = [] { std::this_thread::sleep_for(5ms); };
  test_client header{s.port};
  header.send("G");
  next();
  test_client body{s.port};
  body.send("POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\n{");
  next();
  test_client answer{s.port, 4096};
  std::string tokens = R"({"tokens":[1)";
  while (tokens.size() < 900'000) tokens += ",1";
  answer.send(post("/detokenize", tokens + "]}"));
  answer.read_until("200 OK");
  std::vector<std::unique_ptr<test_client>> late;
  for (int i = 0; i < 5; ++i) {
    next();
    late.push_back(std::make_unique<test_client>(s.port));
    late.back()->send(get("/health"));
    CHECK(late.back()->read_reply().status == 200);
    late.back()->send("G");
  }
  CHECK(header.closed_by_peer());
  CHECK(body.closed_by_peer());
  CHECK(answer.closed_by_peer());
}

TEST_CASE("hostile client: long bodies are bounded together, and those that do not come are closed",
          "[net]") {
  auto config = patient();
  config.max_body_bytes = 128 << 20;
  running_server s{config};
  const std::string most(100 << 20, ' ');
  const auto begun = "POST /v1/completions HTTP/1.1\r\nHost: h\r\nContent-Length: " +
                     std::to_string(config.max_body_bytes) + "\r\n\r\n" + most;
  test_client first{s.port}, second{s.port}, third{s.port}, small{s.port};
  first.send(begun);
  std::this_thread::sleep_for(5ms);
  second.send(begun);
  std::this_thread::sleep_for(5ms);
  third.send(begun);  // 300 MiB
  CHECK(first.closed_by_peer());
  small.send(post("/v1/completions", R"({"prompt":"a"})"));
  CHECK(small.read_reply().status == 200);
  third.send(std::string((28 << 20) - 2, ' ') + "{}");
  CHECK(third.read_reply().status == 400);  // no prompt
}

TEST_CASE("hostile client: unread answers of the text tools are bounded together", "[net]") {
  auto config = patient();
  config.max_body_bytes = 32 << 20;
  running_server s{config};
  std::string tokens = R"({"tokens":[1)";
  while (tokens.size() < 12'000'000) tokens += ",1";  // 6 bytes of the answer each: "\u0001"
  const std::string bytes = post("/detokenize", tokens + "]}");
  std::vector<std::unique_ptr<test_client>> many;
  for (int i = 0; i < 3; ++i) {
    many.push_back(std::make_unique<test_client>(s.port, 4096));
    many.back()->send(bytes);
    CHECK(many.back()->read_until("HTTP/1.1 ").size() > 0);
  }
  CHECK(contains(many[0]->read_until("\r\n"), "200"));
  const auto refused = many[2]->read_reply();
  CHECK(refused.status == 503);
  CHECK(refused.header("Retry-After") == "1");
  many[0]->reset();
  many[1]->reset();
  REQUIRE(fake_engine::eventually([&] { return s.server_under_test.idle(); }));
  many[2]->send(post("/detokenize", R"({"tokens":[97]})"));
  CHECK(many[2]->read_reply().body == R"({"prompt":"a"})");
}
