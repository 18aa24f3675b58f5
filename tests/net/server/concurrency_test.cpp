// Connections whose events meet: deltas and ends from several engine threads, cancels by id,
// closes, drain and stop, all at once. What must hold is counted; that nothing is touched by two
// threads at a time, the thread sanitizer sees (tests/tsan). Assertions stand on the test's own
// thread.
#include <atomic>
#include <catch2/catch.hpp>
#include <random>
#include <thread>

#include "net/server/metrics.hpp"
#include "net/server/server.hpp"
#include "tests/net/test_client.hpp"
#include "tests/support/racing_engine.hpp"

using namespace troupe;
using namespace troupe::net::test;
using troupe::test::racing_engine;

namespace {

const std::string stream_of_8 =
    R"({"messages":[{"role":"user","content":"hi"}],"stream":true,"n":8})";
const std::string plain_of_2 = R"({"prompt":"hi","n":2})";
const std::string ws_create = R"({"type":"response.create","input":"hi"})";

runtime_config three_threads() {
  runtime_config config;
  config.port = 0;
  config.threads_http = 3;
  return config;
}

struct racing_server {
  racing_server()
      : server_under_test{three_threads(), engine, counters}, port{server_under_test.start()} {}
  ~racing_server() { server_under_test.stop(); }

  bool quiet() {
    return racing_engine::eventually([&] { return engine.idle() && server_under_test.idle(); });
  }
  void check_rules() {
    CHECK(quiet());
    CHECK(engine.overruns == 0);
    CHECK(engine.vanished == 0);
    CHECK(engine.left_again == 0);
  }

  racing_engine engine;
  net::metrics counters;
  net::server server_under_test;
  std::uint16_t port = 0;
};

/// The id to cancel by, from what has been read of a reply.
std::string troupe_id(const std::string& text) {
  const std::string name = "X-Troupe-Id: ";
  const auto at = text.find(name);
  if (at == text.npos) return "unknown";
  return text.substr(at + name.size(), text.find("\r\n", at) - at - name.size());
}

void leave(test_client& c, unsigned how) {
  if (how % 3 == 0) c.close();
  if (how % 3 == 1) c.reset();
  if (how % 3 == 2) c.half_close();
}

/// Runs body(i) on `count` threads; how many threw.
template <class Body>
int on_threads(int count, Body body) {
  std::atomic<int> thrown = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i)
    threads.emplace_back([&, i] {
      try {
        body(i);
      } catch (const std::exception&) {
        ++thrown;
      }
    });
  for (auto& t : threads) t.join();
  return thrown;
}

}  // namespace

TEST_CASE("concurrency: deltas of eight choices, a cancel by id and a close meet on one connection",
          "[net][race]") {
  racing_server s;
  s.engine.pieces = 30;
  for (unsigned round = 0; round < 45; ++round) {
    test_client c{s.port};
    c.send(post("/v1/chat/completions", stream_of_8));
    const std::string id = troupe_id(c.read_until("word1 "));
    const int thrown = on_threads(2, [&](int who) {
      if (who == 0) return leave(c, round);
      test_client other{s.port};
      other.send(post("/v1/requests/" + id + "/cancel", "{}"));
      if (other.read_reply().status != 200) throw std::runtime_error("no such request");
    });
    CHECK(thrown == 0);
  }
  s.check_rules();
  CHECK(s.engine.submitted == 45 * 8);
}

TEST_CASE("concurrency: an undisturbed stream has every word of every choice in order",
          "[net][race]") {
  racing_server s;
  s.engine.pieces = 12;
  std::atomic<int> wrong = 0;
  const int thrown = on_threads(3, [&](int) {
    test_client c{s.port};
    for (int i = 0; i < 6; ++i) {
      c.send(post("/v1/chat/completions", stream_of_8));
      std::vector<std::string> texts(8);
      for (const auto& data : sse_data(c.read_reply().body)) {
        const auto index = data.find("\"index\":"), content = data.find("\"content\":\"");
        if (index == data.npos || content == data.npos) continue;
        texts.at(static_cast<std::size_t>(data[index + 8] - '0')) +=
            data.substr(content + 11, data.find('"', content + 11) - content - 11);
      }
      std::string expected;
      for (int word = 1; word <= 12; ++word) expected += "word" + std::to_string(word) + " ";
      for (const auto& text : texts) wrong += text != expected;
    }
  });
  CHECK(thrown == 0);
  CHECK(wrong == 0);
  s.check_rules();
  CHECK(s.engine.left == 0);
  CHECK(s.engine.deltas == 3 * 6 * 8 * 12);
}

TEST_CASE("concurrency: hundreds of short connections of every kind, some of which leave",
          "[net][race]") {
  racing_server s;
  std::atomic<int> refused = 0;
  const int thrown = on_threads(4, [&](int who) {
    std::mt19937 random(static_cast<unsigned>(who));
    for (int i = 0; i < 75; ++i) {
      test_client c{s.port};
      const unsigned kind = random() % 6;
      const bool stays = random() % 3 != 0;
      if (kind == 0) {
        c.send(get("/metrics") + get("/health"));
      } else if (kind == 1) {
        c.send(post("/tokenize", R"({"prompt":"abc"})"));
      } else if (kind == 2) {
        c.upgrade();
        c.send_ws(ws_create);
        c.send_ws(ws_create);
        c.send_ws(R"({"type":"response.cancel"})");
      } else {
        c.send(kind == 3 ? post("/v1/completions", plain_of_2)
                         : post("/v1/chat/completions", stream_of_8));
      }
      if (!stays) {
        leave(c, random());
        continue;
      }
      if (kind == 2) c.read_until("output_item.done");
      if (kind != 2) refused += c.read_reply().status != 200;
    }
  });
  CHECK(thrown == 0);
  CHECK(refused == 0);
  s.check_rules();
  CHECK(s.engine.submitted > 300);
}

TEST_CASE("concurrency: a WebSocket's responses, cancels and pings meet its close", "[net][race]") {
  racing_server s;
  s.engine.pieces = 20;
  const int thrown = on_threads(3, [&](int who) {
    for (unsigned i = 0; i < 20; ++i) {
      test_client c{s.port};
      c.upgrade();
      for (int n = 0; n < 3; ++n) c.send_ws(ws_create);
      c.read_until("word1 ");
      c.send_ws("ping", 9);
      c.send_ws(R"({"type":"response.cancel"})");
      if (who == 0) c.read_until("word2 ");
      leave(c, i);
    }
  });
  CHECK(thrown == 0);
  s.check_rules();
  CHECK(s.engine.submitted >= 60);
}

TEST_CASE("concurrency: the server stops while streams of every kind run and newcomers knock",
          "[net][race]") {
  for (int round = 0; round < 4; ++round) {
    racing_server s;
    s.engine.pieces = racing_engine::endless;
    std::atomic<bool> stopped = false;
    std::atomic<int> streaming = 0;
    std::vector<std::thread> clients;
    for (int i = 0; i < 6; ++i)
      clients.emplace_back([&, i] {
        try {
          test_client c{s.port};
          if (i % 2) {
            c.upgrade();
            c.send_ws(ws_create);
          } else {
            c.send(post("/v1/chat/completions", stream_of_8));
          }
          c.read_until("word1 ");
          ++streaming;
          c.closed_by_peer();
        } catch (const std::exception&) {  // closed while it read: what this is about
        }
      });
    clients.emplace_back([&] {
      while (!stopped) {
        try {
          test_client c{s.port};
          c.send(post("/v1/chat/completions", stream_of_8));
          c.read_until("word1 ");
        } catch (const std::exception&) {  // the port is closed
        }
      }
    });
    CHECK(racing_engine::eventually([&] { return streaming == 6; }));
    if (round % 2) s.server_under_test.drain();
    s.server_under_test.stop();
    stopped = true;
    for (auto& t : clients) t.join();
    s.check_rules();
    CHECK(s.engine.left >= 6);
  }
}
