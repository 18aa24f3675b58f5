// Public failures of HTTP servers, by their case ids: half-closes, proxies, ids that repeat,
// cancels that race.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <map>
#include <memory>
#include <thread>

#include "tests/net/test_client.hpp"

using namespace troupe;
using namespace troupe::net::test;
using namespace std::chrono_literals;

namespace {

const std::string stream_body = R"({"prompt":"a","stream":true})";
const std::string plain_body = R"({"prompt":"a"})";

script holding(hold_at where) {
  script s;
  s.hold = where;
  return s;
}

std::string id_in(const std::string& head) {
  const std::size_t at = head.find("X-Troupe-Id: ") + 13;
  return head.substr(at, head.find("\r\n", at) - at);
}

}  // namespace

TEST_CASE(
    "C029 disconnect: a half-close means the same for streamed and plain replies, as configured",
    "[net]") {
  for (const bool gone : {true, false})
    for (const bool stream : {true, false}) {
      CAPTURE(gone, stream);
      runtime_config config;
      config.half_close_is_gone = gone;
      running_server s{config};
      script one;
      one.pause = 15ms;
      s.engine.play(one);
      test_client c{s.port};
      c.send(post("/v1/completions", stream ? stream_body : plain_body));  // what `nc -N` does
      c.half_close();
      if (gone) {
        REQUIRE(fake_engine::eventually([&] { return s.engine.cancels().size() == 1; }));
        CHECK(c.closed_by_peer());
      } else {
        const auto r = c.read_reply();
        CHECK(r.status == 200);
        CHECK(contains(r.body, stream ? "[DONE]" : "Hello, world"));
        CHECK(c.closed_by_peer());  // nothing can follow on this connection
        CHECK(s.engine.cancels().empty());
      }
      CHECK(fake_engine::eventually(
          [&] { return s.engine.live() == 0 && s.server_under_test.idle(); }));
    }
}

TEST_CASE(
    "C031 proxy: every event stream says that it is one, not to be cached and not to be buffered",
    "[net]") {
  running_server s;
  script one = holding(hold_at::decode);
  s.engine.play(one);
  const std::map<std::string, std::string> routes{
      {"/v1/chat/completions", R"({"messages":[{"role":"user","content":"a"}],"stream":true})"},
      {"/v1/completions", stream_body},
      {"/v1/responses", R"({"input":"a","stream":true})"}};
  for (const auto& [path, body] : routes) {
    CAPTURE(path);
    test_client c{s.port};
    c.send(post(path, body));
    const auto so_far =
        c.read_until("Hello");  // the first event is here and the second is not made yet
    CHECK(contains(so_far, "\r\nContent-Type: text/event-stream"));
    CHECK(contains(so_far, "\r\nCache-Control: no-cache\r\n"));
    CHECK(contains(so_far, "\r\nX-Accel-Buffering: no\r\n"));
    CHECK_FALSE(contains(so_far, "world"));
  }
}

TEST_CASE(
    "C040 cancel: an X-Request-Id used again at once is a label, so nothing strikes the newcomer",
    "[net]") {
  runtime_config config;
  config.threads_http = 2;
  running_server s{config};
  const std::string same = "X-Request-Id: same\r\n";
  test_client canceller{s.port};
  for (int round = 0; round < 150; ++round) {
    s.engine.play(holding(hold_at::decode));
    test_client first{s.port}, second{s.port};
    first.send(post("/v1/completions", stream_body, same));
    const auto head = first.read_until("Hello");
    s.engine.play(script{});
    const std::size_t cancels = s.engine.cancels().size();
    if (round % 3 == 0) {  // by id
      canceller.send(post("/v1/requests/" + id_in(head) + "/cancel", ""));
      second.send(post("/v1/completions", plain_body, same));
      REQUIRE(canceller.read_reply().status == 200);
    } else {  // by leaving
      round % 3 == 1 ? first.reset() : first.close();
      second.send(post("/v1/completions", round % 2 == 0 ? plain_body : stream_body, same));
    }
    const auto r = second.read_reply();
    REQUIRE(r.status == 200);
    REQUIRE(r.header("X-Request-Id") == "same");
    REQUIRE(contains(r.body, "world"));
    REQUIRE(fake_engine::eventually([&] { return s.engine.live() == 0; }));
    REQUIRE(s.engine.cancels().size() == cancels + 1);
    REQUIRE(s.engine.cancels().back().id == static_cast<std::uint64_t>(2 * round + 1));
  }
  canceller.send(post("/v1/requests/same/cancel", ""));
  CHECK(canceller.read_reply().status == 404);
}

TEST_CASE("C041 cancel: two requests with one X-Request-Id have ids and texts of their own",
          "[net]") {
  running_server s;
  s.engine.play([](std::size_t i) {
    script one;
    one.pieces = {i == 0 ? "crimson" : "azure"};
    one.repeat = 20;
    one.pause = 1ms;
    return one;
  });
  const std::string same = "X-Request-Id: twin\r\n";
  test_client a{s.port}, b{s.port};
  a.send(post("/v1/completions", stream_body, same));
  const auto head_a = a.read_until("crimson");
  b.send(post("/v1/completions", stream_body, same));
  const auto head_b = b.read_until("azure");
  CHECK(id_in(head_a) != id_in(head_b));
  const auto body_a = a.read_reply().body, body_b = b.read_reply().body;
  CHECK_FALSE(contains(body_a, "azure"));
  CHECK_FALSE(contains(body_b, "crimson"));
  CHECK(sse_data(body_a).back() == "[DONE]");
  CHECK(sse_data(body_b).back() == "[DONE]");
  CHECK_FALSE(contains(s.counters.scrape(), "} -"));
}

TEST_CASE(
    "C043 cancel: never seen is 404, over is no effect, the same one in parallel takes effect once",
    "[net]") {
  runtime_config config;
  config.threads_http = 3;
  running_server s{config};
  s.engine.play(holding(hold_at::decode));
  test_client other{s.port};
  other.send(post("/v1/completions", stream_body));
  other.read_until("Hello");
  std::string last;
  for (int round = 0; round < 20; ++round) {
    test_client c{s.port};
    c.send(post("/v1/completions", stream_body));
    const auto id = id_in(c.read_until("Hello"));
    std::vector<std::unique_ptr<test_client>> all;
    for (int i = 0; i < 4; ++i) all.push_back(std::make_unique<test_client>(s.port));
    for (auto& one : all) one->send(post("/v1/requests/" + id + "/cancel", ""));
    for (auto& one : all) CHECK(one->read_reply().status == 200);
    const auto data = sse_data(c.read_reply().body);
    REQUIRE(std::count(data.begin(), data.end(), "[DONE]") == 1);
    CHECK(contains(data[data.size() - 2], R"("finish_reason":"cancelled")"));
    // What is repeated to the engine while it runs has no effect there: tests/actors, "a cancel
    // during a step".
    for (const auto& cancel : s.engine.cancels()) CHECK(cancel.why == core::end_reason::cancelled);
    last = id;
  }
  test_client c{s.port};
  c.send(post("/v1/requests/" + last + "/cancel", ""));
  CHECK(contains(c.read_reply().body, R"("cancelled":false)"));
  for (const auto& id :
       std::vector<std::string>{"cmpl-never", "", "1", "..%2f..", std::string(3000, 'x')}) {
    CAPTURE(id);
    c.send(post("/v1/requests/" + id + "/cancel", ""));
    CHECK(c.read_reply().status == 404);
  }
  CHECK(s.engine.live() == 1);  // the other one never noticed
}
