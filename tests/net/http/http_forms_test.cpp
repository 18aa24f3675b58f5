// Forms of a request that HTTP allows and few clients use.
#include <catch2/catch.hpp>

#include "net/http/http_parser.hpp"
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

TEST_CASE("http forms: D4 one valid Host is needed, or the connection closes with 400", "[net]") {
  running_server s;
  const auto refused = [&](const std::string& head, const char* words) {
    CAPTURE(head);
    test_client c{s.port};
    c.send(head + "\r\n\r\n");
    const auto r = c.read_reply();
    CHECK(r.status == 400);
    CHECK(contains(r.body, words));
    CHECK(r.header("Connection") == "close");
    CHECK(c.closed_by_peer());
  };
  refused("GET /health HTTP/1.1", "needs a Host header");
  refused("GET http://127.0.0.1/health HTTP/1.1", "needs a Host header");
  refused("GET /health HTTP/1.1\r\nHost: a\r\nHost: a", "2 Host headers, allowed is 1");
  refused("GET /health HTTP/1.0\r\nHost: a\r\nhost: b", "2 Host headers, allowed is 1");
  for (const char* host : {"a b", "a/b", "u@a", "a:x", "a:99999", "[::1", "a,b", "http://a"})
    refused(std::string{"GET /health HTTP/1.1\r\nHost: "} + host, "must be a host name");
  for (const char* good : {"HTTP/1.1\r\nHost: a.example:8000", "HTTP/1.1\r\nHost: [::1]:80",
                           "HTTP/1.1\r\nHost:", "HTTP/1.1\r\nhost: my_box", "HTTP/1.0"}) {
    CAPTURE(good);
    test_client c{s.port};
    c.send(std::string{"GET /health "} + good + "\r\n\r\n");
    CHECK(c.read_reply().status == 200);
  }
}

TEST_CASE("http forms: D4 a folded header line is 400, however it is cut", "[net]") {
  running_server s;
  for (const char* fold : {"\r\n folded", "\r\n\tfolded", "\r\n \r\n"}) {
    const std::string head =
        std::string{"GET /health HTTP/1.1\r\nHost: a\r\nX: y"} + fold + "\r\nZ: z\r\n\r\n";
    for (const bool bytewise : {false, true}) {
      CAPTURE(head, bytewise);
      test_client c{s.port};
      if (bytewise) {
        for (const char byte : head)
          if (!c.try_send(std::string(1, byte))) break;
      } else {
        c.send(head);
      }
      const auto r = c.read_reply();
      CHECK(r.status == 400);
      CHECK(contains(r.body, "several lines"));
      CHECK(c.closed_by_peer());
    }
  }
  test_client c{s.port};
  c.send("GET /health HTTP/1.1\r\n Host: a\r\n\r\n");
  CHECK(c.read_reply().status == 400);
}

TEST_CASE("http forms: D4 a body that looks folded is a body", "[net]") {
  // The second follows the head's empty line as a fold would follow a field.
  for (const char* body :
       {"\r\n {\r\n\t\"prompt\":\r\n \"x\"}\r\n\r\n ", " {\r\n\t\"prompt\":\r\n \"x\"}"}) {
    const std::string request = post("/v1/completions", body);
    for (std::size_t cut = 1; cut < request.size(); ++cut) {
      CAPTURE(body, cut);
      net::http_parser parser{8192, 8192};
      std::string input = request.substr(0, cut);
      CHECK(parser.feed(input) != net::parse_state::failed);
      input += request.substr(cut);
      CHECK(parser.feed(input) == net::parse_state::done);
    }
  }
}
