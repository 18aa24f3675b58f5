// Forms of a request that HTTP allows and few clients use.
#include <catch2/catch.hpp>

#include "tests/net/test_client.hpp"

using namespace troupe;
using namespace troupe::net::test;

TEST_CASE("http forms: empty lines before a request are ignored, however they are cut", "[net]") {
  running_server s;
  test_client c{s.port};
  for (const char byte : "\r\n\r\n" + get("/health")) c.send(std::string(1, byte));
  CHECK(c.read_reply().status == 200);
  c.send(post("/v1/completions", R"({"prompt":"x"})") + "\r\n" + get("/health"));
  CHECK(c.read_reply().status == 200);
  CHECK(c.read_reply().body == R"({"status":"ok"})");
}

TEST_CASE("http forms: a target that names its host is served as the path, and its host counts",
          "[net]") {
  running_server s;
  test_client c{s.port};
  c.send("GET http://127.0.0.1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
  CHECK(c.read_reply().status == 200);
  c.send("GET HTTP://127.0.0.1?a HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
  CHECK(contains(c.read_reply().body, "Unknown URL: GET /?a"));
  const std::string body = R"({"prompt":"x"})";
  c.send(
      "POST http://evil.example/v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: "
      "http://127.0.0.1\r\n"
      "Content-Length: " +
      std::to_string(body.size()) + "\r\n\r\n" + body);
  CHECK(c.read_reply().status == 403);
}

TEST_CASE("http forms: an unknown expectation is 417, a coded body 415", "[net]") {
  running_server s;
  test_client c{s.port}, other{s.port};
  c.send(post("/v1/completions", R"({"prompt":"x"})", "Expect: foo\r\n"));
  CHECK(c.read_reply().status == 417);
  CHECK(c.closed_by_peer());
  other.send(post("/tokenize", R"({"prompt":"x"})", "Content-Encoding: gzip\r\n"));
  const auto r = other.read_reply();
  CHECK(r.status == 415);
  CHECK(contains(r.body, "'gzip'"));
  other.send(post("/tokenize", R"({"prompt":"x"})", "Content-Encoding: identity\r\n"));
  CHECK(other.read_reply().status == 200);
  CHECK(s.engine.submitted().empty());
}
