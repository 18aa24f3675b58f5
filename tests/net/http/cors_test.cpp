#include <catch2/catch.hpp>

#include "net/server/auth.hpp"
#include "tests/net/http/routes_only.hpp"

using namespace troupe;
using namespace troupe::net;
using namespace troupe::net::test;

namespace {

const std::string stainless =
    "authorization,content-type,x-stainless-arch,x-stainless-lang,x-stainless-os,"
    "x-stainless-package-version,x-stainless-retry-count,x-stainless-runtime,"
    "x-stainless-runtime-version,x-stainless-timeout";

header_list asking(const std::string& origin, const std::string& names) {
  return {{"Origin", origin},
          {"Host", "h"},
          {"Access-Control-Request-Method", "POST"},
          {"Access-Control-Request-Headers", names}};
}

}  // namespace

TEST_CASE("http_routes: preflight and posts know their origins", "[net]") {
  runtime_config config;
  config.allowed_origins = {"http://ok.example"};
  routes_only r{config};
  const auto good = r.ask("OPTIONS", "/v1/chat/completions", "",
                          {{"Origin", "http://ok.example"}, {"Host", "h"}});
  CHECK(good.status == 204);
  CHECK(header(good, "Access-Control-Allow-Methods") == "POST, OPTIONS");
  CHECK(
      r.ask("OPTIONS", "/v1/chat/completions", "", {{"Origin", "http://no.example"}, {"Host", "h"}})
          .status == 403);
  // A page can post plain text without a preflight: what it may not read it may not start either.
  const auto posted =
      r.ask("POST", "/v1/chat/completions", R"({"messages":[{"role":"user","content":"a"}]})",
            {{"Origin", "http://no.example"}, {"Host", "h"}});
  CHECK(posted.status == 403);
  CHECK(contains(posted.body, "origin_not_allowed"));
  CHECK(contains(posted.body, "'http://no.example'"));
}

TEST_CASE(
    "http_routes: a page that points its own name at this machine can neither post nor upgrade",
    "[net]") {
  routes_only r;
  const header_list rebound{{"Origin", "http://evil.example:8000"}, {"Host", "evil.example:8000"}};
  CHECK(r.ask("OPTIONS", "/v1/chat/completions", "", rebound).status == 403);
  const auto posted = r.ask("POST", "/v1/chat/completions",
                            R"({"messages":[{"role":"user","content":"a"}]})", rebound);
  CHECK(posted.status == 403);
  CHECK(contains(posted.body, "origin_not_allowed"));
  CHECK(r.ask("POST", "/tokenize", R"({"prompt":"ab"})", rebound).status == 403);
  CHECK(r.ask("POST", "/tokenize", R"({"prompt":"ab"})",
              {{"Origin", "http://localhost:8000"}, {"Host", "localhost:8000"}})
            .status == 200);
  auto upgrade = rebound;
  upgrade.emplace_back("Connection", "Upgrade");
  upgrade.emplace_back("Upgrade", "websocket");
  CHECK(r.ask("GET", "/v1/responses", "", upgrade).status == 403);
}

TEST_CASE(
    "auth: a page of the server's own host is served, unless it may have pointed its own name here",
    "[net]") {
  runtime_config config;
  config.host = "box";
  config.allowed_origins = {"https://page.example:8443"};
  const auto served = [&](const std::string& host, const std::string& origin) {
    http_request r;
    r.headers = {{"Host", host}, {"Origin", origin}};
    return origin_is_allowed(config, r);
  };
  const auto own_page = [&](const std::string& host) { return served(host, "http://" + host); };
  CHECK(own_page("127.0.0.1:8000"));
  CHECK(own_page("[::1]:8000"));
  CHECK(own_page("localhost"));
  CHECK(own_page("LocalHost:8000"));
  CHECK(own_page("box:1"));
  CHECK(own_page("page.example"));
  CHECK_FALSE(own_page("rebound.example:8000"));
  CHECK_FALSE(own_page("localhost.rebound.example:8000"));
  CHECK_FALSE(own_page("127.0.0.1.rebound.example"));
  CHECK_FALSE(own_page(""));
  CHECK_FALSE(served("localhost:8000", "http://rebound.example:8000"));
  CHECK(served("rebound.example:8000", "https://page.example:8443"));
  config.api_keys = {"secret"};  // which such a page does not have
  CHECK(own_page("rebound.example:8000"));
  CHECK_FALSE(served("localhost:8000", "http://rebound.example:8000"));
}

TEST_CASE("cors: F002 an allowed page may send the headers it asks for", "[net]") {
  runtime_config config;
  config.allowed_origins = {"http://ok.example"};
  routes_only r{config};
  const auto reply =
      r.ask("OPTIONS", "/v1/chat/completions", "", asking("http://ok.example", stainless));
  CHECK(reply.status == 204);
  const auto allowed = header(reply, "Access-Control-Allow-Headers");
  for (const char* name : {"authorization", "x-stainless-os", "x-stainless-timeout"})
    CHECK(contains(allowed, name));
  CHECK(header(reply, "Vary") == "Access-Control-Request-Headers");
  CHECK(contains(header(r.ask("OPTIONS", "/v1/responses", "",
                              asking("http://ok.example", "openai-beta , x-custom")),
                        "Access-Control-Allow-Headers"),
                 "openai-beta, x-custom"));
  CHECK(
      r.ask("OPTIONS", "/v1/chat/completions", "", asking("http://no.example", stainless)).status ==
      403);
}

TEST_CASE("cors: F002 a list that is none, or endless, is not repeated", "[net]") {
  runtime_config config;
  config.allowed_origins = {"*"};
  routes_only r{config};
  for (const std::string& names : {std::string{"a b"}, std::string{"a: b"}, std::string{"\"a\""},
                                   std::string{""}, std::string(5000, 'a')}) {
    CAPTURE(names);
    const auto reply = r.ask("OPTIONS", "/v1/models", "", asking("http://ok.example", names));
    CHECK(reply.status == 204);
    CHECK(header(reply, "Access-Control-Allow-Headers") ==
          "Authorization, Content-Type, X-Request-Id, X-Request-Timeout-Ms");
  }
}

TEST_CASE("cors: F002 a page's preflight over a socket varies by origin and by what was asked",
          "[net]") {
  runtime_config config;
  config.allowed_origins = {"http://ok.example"};
  running_server s{config};
  test_client c{s.port};
  c.send(
      "OPTIONS /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nOrigin: http://ok.example\r\n"
      "Access-Control-Request-Method: POST\r\nAccess-Control-Request-Headers: " +
      stainless + "\r\n\r\n");
  const auto preflight = c.read_reply();
  CHECK(preflight.status == 204);
  CHECK(preflight.header("Access-Control-Allow-Origin") == "http://ok.example");
  CHECK(contains(preflight.header("Access-Control-Allow-Headers"), "x-stainless-os"));
  CHECK(contains(preflight.head, "Vary: Origin\r\n"));
  CHECK(contains(preflight.head, "Vary: Access-Control-Request-Headers\r\n"));
  c.send(get("/health", "Origin: http://ok.example\r\n"));
  // What the SDK goes by when it tries again.
  CHECK(contains(c.read_reply().header("Access-Control-Expose-Headers"), "Retry-After"));
}

TEST_CASE("cors: F011 pages of desktop apps and of any port are served by pattern", "[net]") {
  runtime_config config;
  config.allowed_origins = {"app://*", "http://localhost:*", "http://example.org:80"};
  routes_only r{config};
  const auto served = [&](const std::string& origin, const std::string& host = "h") {
    return r.ask("POST", "/tokenize", R"({"prompt":"ab"})", {{"Origin", origin}, {"Host", host}})
               .status == 200;
  };
  CHECK(served("app://obsidian.md"));
  CHECK(served("http://localhost:5173"));
  CHECK(served("http://example.org"));
  CHECK_FALSE(served("https://localhost:5173"));
  CHECK_FALSE(served("null"));
  CHECK_FALSE(served("http://localhost.evil.example"));
  // A pattern names no host of ours: a page cannot point its own name here and pass.
  CHECK_FALSE(served("http://evil.example:8000", "evil.example:8000"));
}

TEST_CASE("cors: F011 a page of the server's own host may leave the default port out", "[net]") {
  routes_only r;
  const auto served = [&](const std::string& origin, const std::string& host) {
    return r.ask("POST", "/tokenize", R"({"prompt":"ab"})", {{"Origin", origin}, {"Host", host}})
               .status == 200;
  };
  CHECK(served("http://localhost", "localhost:80"));
  CHECK(served("https://localhost", "localhost"));
  CHECK_FALSE(served("http://localhost", "localhost:8000"));
}
