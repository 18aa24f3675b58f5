// Clients that leave, in every way, at every point, on every generating path: exactly one cancel
// each.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <thread>

#include "net/http/http_routes.hpp"
#include "tests/net/test_client.hpp"

using namespace troupe;
using namespace troupe::net::test;

namespace {

struct path_case {
  std::string path, plain, stream;
};

/// Every path that generates over HTTP. A new route must be added here, or the first test below
/// fails.
const std::vector<path_case> paths{
    {"/v1/chat/completions", R"({"messages":[{"role":"user","content":"a"}]})",
     R"({"messages":[{"role":"user","content":"a"}],"stream":true})"},
    {"/v1/completions", R"({"prompt":"a"})", R"({"prompt":"a","stream":true})"},
    {"/v1/responses", R"({"input":"a"})", R"({"input":"a","stream":true})"},
};

enum class leave { fin, rst, half_close };

void go(test_client& c, leave how) {
  if (how == leave::fin) c.close();
  if (how == leave::rst) c.reset();
  if (how == leave::half_close) c.half_close();
}

script holding(hold_at where) {
  script s;
  s.hold = where;
  return s;
}

/// Waits for the point of the request at which the script holds it.
void wait_until_held(running_server& s, hold_at where, test_client& c, bool stream,
                     const std::string& first_text) {
  REQUIRE(fake_engine::eventually([&] { return s.engine.submitted().size() == 1; }));
  if (where == hold_at::prefill && stream) c.read_until("200 OK");
  if (where == hold_at::decode && stream) c.read_until(first_text);
  if (where == hold_at::decode)
    REQUIRE(fake_engine::eventually([&] { return s.engine.deltas_sent() >= 1; }));
  // A plain reply shows nothing on the wire; give the events time to reach the connection.
  std::this_thread::sleep_for(std::chrono::milliseconds{10});
}

void check_one_cancel(running_server& s, const char* transport, const char* phase) {
  REQUIRE(fake_engine::eventually([&] { return s.engine.live() == 0; }));
  REQUIRE(fake_engine::eventually([&] { return s.server_under_test.idle(); }));
  const auto cancels = s.engine.cancels();
  REQUIRE(cancels.size() == 1);
  CHECK(cancels[0].why == core::end_reason::client_gone);
  CHECK(cancels[0].seen_at <= s.engine.now());
  CHECK(contains(s.counters.scrape(), std::string{"troupe_client_disconnects_total{phase=\""} +
                                          phase + "\",transport=\"" + transport + "\"} 1"));
}

}  // namespace

TEST_CASE("C017 disconnect: every generating route is in this test's list", "[net]") {
  std::set<std::string> listed;
  for (const auto& p : paths) listed.insert(p.path);
  const auto routes = net::generating_routes();
  CHECK(std::set<std::string>(routes.begin(), routes.end()) == listed);
}

TEST_CASE(
    "C017 disconnect: a client that leaves any route in any mode at any point is cancelled once",
    "[net]") {
  for (const auto& p : paths)
    for (const bool stream : {false, true})
      for (const hold_at where : {hold_at::queued, hold_at::prefill, hold_at::decode})
        for (const leave how : {leave::fin, leave::rst, leave::half_close}) {
          CAPTURE(p.path, stream, static_cast<int>(where), static_cast<int>(how));
          running_server s;
          s.engine.play(holding(where));
          test_client c{s.port};
          c.send(post(p.path, stream ? p.stream : p.plain));
          wait_until_held(s, where, c, stream, "Hello");
          go(c, how);
          const char* phase = where == hold_at::queued    ? "queued"
                              : where == hold_at::prefill ? "prefill"
                                                          : "decode";
          check_one_cancel(s, stream ? "sse" : "http", phase);
        }
}

TEST_CASE("C017 disconnect: a WebSocket client that leaves at any point is cancelled once",
          "[net]") {
  for (const hold_at where : {hold_at::queued, hold_at::prefill, hold_at::decode})
    for (const leave how : {leave::fin, leave::rst, leave::half_close}) {
      CAPTURE(static_cast<int>(where), static_cast<int>(how));
      running_server s;
      s.engine.play(holding(where));
      test_client c{s.port};
      REQUIRE(c.upgrade().status == 101);
      c.send_ws(R"({"type":"response.create","input":"a"})");
      if (where != hold_at::queued) c.read_until("response.created");
      wait_until_held(s, where, c, where == hold_at::decode, "Hello");
      go(c, how);
      const char* phase = where == hold_at::queued    ? "queued"
                          : where == hold_at::prefill ? "prefill"
                                                      : "decode";
      check_one_cancel(s, "ws", phase);
    }
}

TEST_CASE("C016 disconnect: all choices of a batch stop, and the server answers the next request",
          "[net]") {
  running_server s;
  s.engine.play(holding(hold_at::decode));
  test_client c{s.port};
  c.send(post("/v1/completions", R"({"prompt":["a","b","c"]})"));
  REQUIRE(fake_engine::eventually([&] { return s.engine.deltas_sent() == 3; }));
  c.close();
  REQUIRE(fake_engine::eventually([&] { return s.engine.live() == 0; }));
  std::map<std::uint64_t, int> per_generation;
  for (const auto& cancel : s.engine.cancels()) ++per_generation[cancel.id];
  CHECK(per_generation == std::map<std::uint64_t, int>{{1, 1}, {2, 1}, {3, 1}});
  s.engine.play(script{});
  test_client next{s.port};
  next.send(post("/v1/completions", R"({"prompt":"a"})"));
  CHECK(next.read_reply().status == 200);
}

TEST_CASE("C004 disconnect: a reset right behind the request never leaves work behind", "[net]") {
  runtime_config config;
  config.threads_http = 3;
  running_server s{config};
  s.engine.play(holding(hold_at::decode));
  for (int i = 0; i < 500; ++i) {
    test_client c{s.port};
    c.send(post("/v1/chat/completions", i % 2 == 0 ? paths[0].plain : paths[0].stream));
    if (i % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds{i});
    c.reset();
  }
  // A last connection may still be read while the others are over, so idle alone is no end.
  std::size_t started = 0;
  REQUIRE(fake_engine::eventually([&] {
    started = s.engine.submitted().size();
    return s.server_under_test.idle() && s.engine.live() == 0 &&
           s.engine.cancels().size() == started;
  }));
  CHECK(started > 0);
  std::map<std::uint64_t, int> per_generation;
  for (const auto& cancel : s.engine.cancels()) ++per_generation[cancel.id];
  for (std::uint64_t id = 1; id <= started; ++id) CHECK(per_generation[id] == 1);
  s.engine.play(script{});
  test_client next{s.port};
  next.send(post("/v1/completions", R"({"prompt":"a"})"));
  CHECK(next.read_reply().status == 200);
}

TEST_CASE("disconnect: a half-close may be allowed, and a reset after it still counts", "[net]") {
  runtime_config config;
  config.half_close_is_gone = false;
  running_server s{config};
  {
    script one;
    one.pause = std::chrono::milliseconds{20};
    s.engine.play(one);
    test_client c{s.port};
    c.send(post(paths[0].path, paths[0].stream));
    c.half_close();
    CHECK(sse_data(c.read_reply().body).back() == "[DONE]");
    CHECK(s.engine.cancels().empty());
  }
  s.engine.play(holding(hold_at::decode));
  test_client c{s.port};
  c.send(post(paths[0].path, paths[0].stream));
  c.half_close();
  c.read_until("Hello");
  c.reset();
  CHECK(fake_engine::eventually([&] { return s.engine.cancels().size() == 1; }));
}

TEST_CASE("disconnect: a half-close behind a short request still gets its reply", "[net]") {
  running_server s;
  test_client c{s.port};
  c.send(get("/version") + get("/health"));
  c.half_close();
  CHECK(c.read_reply().status == 200);
  CHECK(c.read_reply().body == R"({"status":"ok"})");
  CHECK(c.closed_by_peer());
}

TEST_CASE("disconnect: leaving after the last token cancels nothing", "[net]") {
  running_server s;
  test_client c{s.port};
  c.send(post(paths[0].path, paths[0].stream));
  c.read_reply();
  c.reset();
  REQUIRE(fake_engine::eventually([&] { return s.server_under_test.idle(); }));
  CHECK(s.engine.cancels().empty());
}
