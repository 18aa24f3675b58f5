#include "net/http/http_routes.hpp"

#include <catch2/catch.hpp>

#include "net/server/auth.hpp"
#include "tests/net/fake_engine.hpp"

using namespace troupe;
using namespace troupe::net;
using namespace troupe::net::test;

namespace {

struct routes_only {
  explicit routes_only(runtime_config config = {}) : context{config, engine, counters} {}
  http_reply ask(const std::string& method, const std::string& target, const std::string& body = "",
                 header_list headers = {}) {
    http_request r;
    r.method = method;
    r.target = target;
    r.body = body;
    r.headers = std::move(headers);
    auto routed = route(r, context);
    if (auto* reply = std::get_if<http_reply>(&routed.what)) return *reply;
    if (auto* slow = std::get_if<slow_reply>(&routed.what)) return (*slow)();
    return {.status = 0, .headers = {}, .body = "not answered here"};
  }
  fake_engine engine;
  metrics counters;
  route_context context;
};

std::string header(const http_reply& r, const std::string& name) {
  for (const auto& [key, value] : r.headers)
    if (key == name) return value;
  return "";
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

}  // namespace

TEST_CASE("http_routes: discovery and health", "[net]") {
  routes_only r;
  CHECK(contains(r.ask("GET", "/v1/models").body, R"("id":"fake","object":"model")"));
  CHECK(r.ask("GET", "/v1/models/").status == 200);
  CHECK(r.ask("GET", "/v1/models/fake").status == 200);
  CHECK(contains(r.ask("GET", "/v1/models/a%2Fb").body, "model_not_found"));
  CHECK(r.ask("GET", "/v1/models/a%2").status == 404);
  CHECK(r.ask("GET", "/ready?x=1").status == 200);
  CHECK(contains(r.ask("GET", "/metrics").body, "troupe_kv_blocks_used 0"));
  CHECK(contains(r.ask("GET", "/tokenizer_info").body, R"("eos_token":"</s>")"));
}

TEST_CASE("http_routes: a failed or stalled engine shows in health and readiness", "[net]") {
  routes_only r;
  r.engine.health_now.stalled_us = 60'000'000;
  CHECK(r.ask("GET", "/ready").status == 503);
  CHECK(r.ask("GET", "/health").status == 200);
  r.engine.health_now.stalled_us = 121'000'000;
  CHECK(r.ask("GET", "/health").status == 503);
  r.engine.health_now = {.failed = true};
  CHECK(r.ask("GET", "/health").status == 503);
}

TEST_CASE("http_routes: draining refuses generation and readiness, not liveness", "[net]") {
  routes_only r;
  r.context.draining = true;
  CHECK(r.ask("GET", "/ready").status == 503);
  CHECK(r.ask("GET", "/health").status == 200);
  const auto refused = r.ask("POST", "/v1/completions", R"({"prompt":"x"})");
  CHECK(refused.status == 503);
  CHECK(contains(refused.body, "server_shutting_down"));
  CHECK(header(refused, "Retry-After") == "5");
}

TEST_CASE("http_routes: wrong path, method, media type", "[net]") {
  routes_only r;
  CHECK(contains(r.ask("GET", "/v2").body, R"("code":"unknown_url")"));
  const auto wrong = r.ask("GET", "/v1/chat/completions");
  CHECK(wrong.status == 405);
  CHECK(header(wrong, "Allow") == "POST, OPTIONS");
  CHECK(header(r.ask("POST", "/health"), "Allow") == "GET, HEAD, OPTIONS");
  CHECK(r.ask("HEAD", "/health").status == 200);
  CHECK(r.ask("POST", "/v1/completions", "a=b",
              {{"content-type", "application/x-www-form-urlencoded"}})
            .status == 415);
  CHECK(r.ask("POST", "/tokenize", R"({"prompt":"ab"})",
              {{"Content-Type", "application/json; charset=utf-8"}})
            .status == 200);
}

TEST_CASE("http_routes: the key guards /v1, the token tools and metrics", "[net]") {
  runtime_config config;
  config.api_keys = {"one", "two"};
  routes_only r{config};
  for (const char* path : {"/v1/models", "/tokenizer_info", "/metrics", "/v1/unknown"}) {
    CAPTURE(path);
    const auto refused = r.ask("GET", path);
    CHECK(refused.status == 401);
    CHECK(header(refused, "WWW-Authenticate") == "Bearer");
  }
  CHECK(r.ask("GET", "/v1/models", "", {{"Authorization", "Bearer two"}}).status == 200);
  CHECK(r.ask("GET", "/v1/models", "", {{"Authorization", "Bearer twofold"}}).status == 401);
  CHECK(r.ask("GET", "/health").status == 200);
}

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

TEST_CASE("http_routes: tokens there and back", "[net]") {
  routes_only r;
  CHECK(contains(r.ask("POST", "/tokenize", R"({"prompt":"ab","return_token_strs":true})").body,
                 R"({"count":2,"max_model_len":128,"tokens":[97,98],"token_strs":["a","b"]})"));
  CHECK(r.ask("POST", "/detokenize", R"({"tokens":[97,98]})").body == R"({"prompt":"ab"})");
  CHECK(contains(r.ask("POST", "/detokenize", R"({"tokens":[97,256]})").body,
                 R"("param":"tokens[1]")"));
  CHECK(contains(r.ask("POST", "/tokenize", R"({"messages":[{"role":"tool","content":"x"}]})").body,
                 "no tool role"));
}

TEST_CASE("http_routes: a cancel of an unknown id is 404", "[net]") {
  routes_only r;
  CHECK(r.ask("POST", "/v1/requests/chatcmpl-1/cancel").status == 404);
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
