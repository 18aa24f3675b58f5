// Valid bytes, spoilt at random and cut at random: every connection gets replies or a close,
// nothing is left running, and how the bytes were cut never matters. The seed is fixed, so a
// failure repeats.
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <random>

#include "net/http/http_parser.hpp"
#include "tests/net/test_client.hpp"
#include "tools/client/ws_reader.hpp"

using namespace troupe;
using namespace troupe::net::test;
using api_client::client_frame;
using namespace std::chrono_literals;

namespace {

using dice = std::mt19937_64;

std::size_t below(dice& random, std::size_t n) {
  return n == 0 ? 0 : random() % n;
}

std::vector<std::string> valid_inputs() {
  const std::string upgrade =
      "GET /v1/responses HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: "
      "websocket\r\n"
      "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n";
  const std::string chat =
      R"({"messages":[{"role":"user","content":"h\u00e9 \"q\""}],"stream":true,"n":2,"stop":["a"]})";
  return {
      get("/health"),
      get("/metrics", "Accept: */*\r\nX-Request-Id: one-two\r\n", "HEAD") + get("/v1/models"),
      post("/v1/completions", R"({"prompt":["a","b"],"max_tokens":3,"logprobs":2,"echo":true})"),
      post("/v1/chat/completions", chat, "Authorization: Bearer x\r\nOrigin: http://127.0.0.1\r\n"),
      post("/v1/completions", R"({"prompt":"a","stream":true})") +
          post("/v1/requests/cmpl-1/cancel", "{}"),
      "POST /v1/responses HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
      "5;x=y\r\n{\"inp\r\n9\r\nut\":\"a\" }\r\n0\r\nTrailer: t\r\n\r\n" +
          get("/version"),
      "POST /tokenize HTTP/1.0\r\nContent-Length: 14\r\nConnection: "
      "keep-alive\r\n\r\n{\"prompt\":\"a\"}",
      post("/v1/completions", R"({"prompt":"a"})", "Expect: 100-continue\r\n"),
      upgrade + client_frame(1, R"({"type":"response.create","input":"a"})") +
          client_frame(9, "ping") + client_frame(1, R"({"type":"response.cancel"})") +
          client_frame(8, "\x03\xe8"),
      upgrade +
          client_frame(1,
                       R"({"type":"response.create","input":")" + std::string(200, 'a') + "\"}") +
          client_frame(10, ""),
  };
}

std::string mutated(dice& random, const std::vector<std::string>& inputs) {
  std::string bytes = inputs[below(random, inputs.size())];
  for (std::size_t changes = below(random, 5); changes > 0 && !bytes.empty(); --changes) {
    const std::size_t at = below(random, bytes.size());
    const std::size_t length = below(random, std::min<std::size_t>(bytes.size() - at, 40)) + 1;
    switch (below(random, 7)) {
      case 0:
        bytes[at] = static_cast<char>(random());
        break;
      case 1:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(random, 8)));
        break;
      case 2:
        bytes.erase(at, length);
        break;
      case 3:
        bytes.insert(at, bytes.substr(at, length));
        break;
      case 4:
        bytes.insert(at, std::vector<std::string>{"\r\n", "\r\n\r\n", ":", "0", "\xff", "chunked",
                                                  "99999999999"}[below(random, 7)]);
        break;
      case 5:
        bytes.resize(at);
        break;
      default: {
        const auto& other = inputs[below(random, inputs.size())];
        bytes.replace(at, length, other.substr(below(random, other.size()), length));
      }
    }
  }
  return bytes;
}

/// The replies begin with a status line each, or the bytes are frames behind a 101.
bool looks_like_http(const std::string& received) {
  return received.empty() || received.starts_with("HTTP/1.1 ") || received.starts_with("HTTP/1.0 ");
}

}  // namespace

TEST_CASE("wire fuzz: spoilt requests and frames get a reply or a close, and leave nothing running",
          "[net]") {
  runtime_config config;
  config.threads_http = 2;
  config.header_timeout_s = config.body_timeout_s = config.keep_alive_timeout_s =
      config.ws_ping_interval_s = 0.1;
  running_server s{config};
  const auto inputs = valid_inputs();
  dice random{20261129};
  std::size_t answered = 0;
  for (int wave = 0; wave < 10; ++wave) {
    std::vector<std::pair<std::unique_ptr<test_client>, std::string>> all;
    for (int i = 0; i < 120; ++i)
      all.emplace_back(std::make_unique<test_client>(s.port), mutated(random, inputs));
    for (auto& [client, bytes] : all) {
      const std::size_t cut = below(random, bytes.size() + 1),
                        second = cut + below(random, bytes.size() - cut + 1);
      bool open = client->try_send(bytes.substr(0, cut));
      open = open && client->try_send(bytes.substr(cut, second - cut));
      if (open) client->try_send(bytes.substr(second));
    }
    for (auto& [client, bytes] : all) {
      CAPTURE(wave, bytes);
      const std::string received = client->read_to_end();
      CHECK(looks_like_http(received));
      answered += received.empty() ? 0 : 1;
    }
  }
  CHECK(answered > 600);
  REQUIRE(
      fake_engine::eventually([&] { return s.engine.live() == 0 && s.server_under_test.idle(); }));
  CHECK(s.engine.submitted().size() > 50);
  CHECK_FALSE(s.engine.overrun());
  std::map<std::uint64_t, int> per_generation;
  for (const auto& cancel : s.engine.cancels()) CHECK(++per_generation[cancel.id] == 1);
  CHECK(contains(s.counters.scrape(), "troupe_websocket_connections_active 0"));
  test_client next{s.port};
  next.send(get("/health"));
  CHECK(next.read_reply().status == 200);
}

TEST_CASE("wire fuzz: how the bytes of a request are cut never changes what is read", "[net]") {
  const auto inputs = valid_inputs();
  dice random{7};
  const auto read = [](const std::string& bytes, const std::function<std::size_t()>& next_size) {
    net::http_parser parser{512, 400};
    std::string input, seen;
    auto state = net::parse_state::head;
    for (std::size_t at = 0; at < bytes.size() && (state == net::parse_state::head ||
                                                   state == net::parse_state::body);) {
      const std::size_t size = std::min(next_size(), bytes.size() - at);
      input += bytes.substr(at, size);
      at += size;
      state = parser.feed(input);
      if (state == net::parse_state::done) {
        const auto r = parser.take();
        seen = r.method + " " + r.target + " " + r.body;
        for (const auto& [name, value] : r.headers) seen += "|" + name + "=" + value;
        // What follows belongs to the next request, wherever the cuts were.
        seen += "|" + input + bytes.substr(at);
      }
    }
    // A fault in a head that is not complete may be seen at once or with the head's end.
    if (state != net::parse_state::done && bytes.find("\r\n\r\n") == bytes.npos)
      return std::string{"not complete"};
    return std::to_string(static_cast<int>(state)) + seen;
  };
  int done = 0;
  for (int i = 0; i < 10'000; ++i) {
    const std::string bytes = mutated(random, inputs);
    CAPTURE(i, bytes);
    const auto whole = read(bytes, [&] { return bytes.size(); });
    const auto cut = read(bytes, [&] { return below(random, 30) + 1; });
    const auto single = read(bytes, [] { return std::size_t{1}; });
    CHECK(cut == whole);
    CHECK(single == whole);
    done += whole[0] == std::to_string(static_cast<int>(net::parse_state::done))[0];
  }
  CHECK(done > 1500);
}
