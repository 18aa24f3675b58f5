#include "net/http/http_routes.hpp"

#include <catch2/catch.hpp>

#include "tests/net/http/routes_only.hpp"

using namespace troupe;
using namespace troupe::net;
using namespace troupe::net::test;

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
