#include "net/http/kv_audit.hpp"

#include <catch2/catch.hpp>

#include "net/http/http_routes.hpp"
#include "tests/net/fake_engine.hpp"

using namespace troupe;
using namespace troupe::net;
using namespace troupe::net::test;

namespace {

/// Answers with the parts a test leaves in it.
struct fake_probe final : core::engine_probe {
  void audit(std::function<void(core::kv_part)> answer) override {
    for (const auto& part : parts) answer(part);
  }
  void freeze(std::uint32_t ms) override { frozen_ms = ms; }
  void crash(core::engine_part) override {}
  std::vector<core::kv_part> parts;
  std::uint32_t frozen_ms = 0;
};

core::kv_scheduler_part one_request() {
  core::kv_scheduler_part part;
  part.at = 100;
  core::kv_request_view r;
  r.id = core::request_id{3};
  r.state = "decoding_in_flight";
  r.lease = core::lease_id{r.id, 1};
  r.blocks = {0, 1};
  r.computed = 20;
  r.events = {{"granted", 1, 2, 60}};
  part.requests = {r};
  part.step = core::kv_step_view{core::step_id{9}, {r.id}};
  return part;
}

core::kv_allocator_part two_leased_of_four() {
  core::kv_allocator_part part;
  using place = core::block_place;
  const core::lease_id lease{core::request_id{3}, 1};
  part.counts.total = 4, part.counts.free = 2, part.counts.leased = 2;
  part.blocks = {
      {place::leased, {lease}}, {place::leased, {lease}}, {place::free, {}}, {place::free, {}}};
  return part;
}

struct probed_routes {
  explicit probed_routes(bool debug = true, std::vector<std::string> keys = {})
      : context{make(debug, keys), engine, counters} {
    engine.probe_now = &probe;
  }
  static runtime_config make(bool debug, std::vector<std::string> keys) {
    runtime_config config;
    config.debug_endpoints = debug;
    config.api_keys = std::move(keys);
    return config;
  }
  http_reply ask(const std::string& method, const std::string& target, const std::string& body = "",
                 header_list headers = {}) {
    http_request r;
    r.method = method, r.target = target, r.body = body, r.headers = std::move(headers);
    auto routed = route(r, context);
    if (auto* reply = std::get_if<http_reply>(&routed.what)) return *reply;
    return std::get<slow_reply>(routed.what)();
  }
  fake_probe probe;
  fake_engine engine;
  metrics counters;
  route_context context;
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

}  // namespace

TEST_CASE("kv_audit: the parts become one object, blocks that are alike one entry", "[net]") {
  fake_probe probe;
  probe.parts = {one_request(), two_leased_of_four(), core::kv_mover_part{}};
  const auto reply = kv_audit(&probe, "");
  CHECK(reply.status == 200);
  CHECK(contains(
      reply.body,
      R"({"sound":true,"problems":[],"allocator":{"total":4,"free":2,"leased":2,"cached":0,)"));
  CHECK(contains(reply.body, R"("blocks":[{"first":0,"last":1,"state":"leased","leases":["3.1"]},)"
                             R"({"first":2,"last":3,"state":"free","leases":[]}])"));
  CHECK(contains(
      reply.body,
      R"({"id":3,"state":"decoding_in_flight","lease":"3.1","blocks":2,"computed_tokens":20,)"
      R"("copy":null,"copy_blocks":0,"events":[{"event":"granted","lease":"3.1","times":2,"ago_us":40}]})"));
  CHECK(contains(reply.body, R"("step":{"id":9,"requests":[3]},"moves":[])"));
  const auto brief = kv_audit(&probe, "blocks=0");
  CHECK(contains(brief.body, R"("sound":true)"));
  CHECK_FALSE(contains(brief.body, R"("first")"));
}

TEST_CASE("kv_audit: what does not fit together is not sound and says why", "[net]") {
  fake_probe probe;
  probe.parts = {core::kv_scheduler_part{}, two_leased_of_four(), core::kv_mover_part{}};
  CHECK(contains(
      kv_audit(&probe, "").body,
      R"({"sound":false,"problems":["lease 3.1 holds 2 blocks for the allocator and is unknown)"));
}

TEST_CASE("kv_audit: a part that does not come is named after the time", "[net]") {
  fake_probe probe;
  probe.parts = {one_request()};
  const auto reply = kv_audit(&probe, "", std::chrono::milliseconds{10});
  CHECK(reply.status == 503);
  CHECK(contains(reply.body, "No answer within 10 ms from: allocator, mover."));
  CHECK(kv_audit(nullptr, "").status == 503);
  CHECK(kv_audit(&probe, "blocks=2").status == 400);
}

TEST_CASE("kv_audit: the debugging routes exist only with --debug-endpoints, and need the key",
          "[net]") {
  for (const char* path : {"/debug/kv", "/debug/freeze"}) {
    CAPTURE(path);
    const std::string method = path == std::string{"/debug/kv"} ? "GET" : "POST";
    probed_routes closed{false}, open, keyed{true, {"k"}};
    const auto unknown = closed.ask(method, path, R"({"ms":1})");
    CHECK(unknown.status == 404);
    CHECK(contains(unknown.body, "unknown_url"));
    CHECK(closed.ask("OPTIONS", path).status == 404);
    open.probe.parts =
        keyed.probe.parts = {one_request(), two_leased_of_four(), core::kv_mover_part{}};
    CHECK(open.ask(method, path, R"({"ms":1})").status == 200);
    CHECK(keyed.ask(method, path, R"({"ms":1})").status == 401);
    CHECK(keyed.ask(method, path, R"({"ms":1})", {{"Authorization", "Bearer k"}}).status == 200);
    CHECK(closed.probe.frozen_ms == 0);
  }
}

TEST_CASE("kv_audit: the query of the route chooses the list of blocks", "[net]") {
  probed_routes r;
  r.probe.parts = {one_request(), two_leased_of_four(), core::kv_mover_part{}};
  CHECK(contains(r.ask("GET", "/debug/kv").body, R"("first":0)"));
  CHECK_FALSE(contains(r.ask("GET", "/debug/kv?blocks=0").body, R"("first":0)"));
  CHECK(r.ask("GET", "/debug/kv?block=0").status == 400);
}

TEST_CASE("kv_audit: freeze names field and limits", "[net]") {
  fake_probe probe;
  CHECK(freeze(&probe, R"({"ms":1500})").status == 200);
  CHECK(probe.frozen_ms == 1500);
  for (const char* body : {"{}", R"({"ms":0})", R"({"ms":60001})", R"({"ms":"1"})"}) {
    CAPTURE(body);
    const auto reply = freeze(&probe, body);
    CHECK(reply.status == 400);
    CHECK(contains(reply.body, "'ms' must be an integer, 1 to 60000."));
  }
  CHECK(contains(freeze(&probe, R"({"ms":1,"s":2})").body, "unsupported_parameter"));
  CHECK(freeze(&probe, "no").status == 400);
  CHECK(probe.frozen_ms == 1500);
}

TEST_CASE("http_routes: a stalled engine says for how long and what waits", "[net]") {
  probed_routes r;
  r.engine.health_now = {.running = 3, .waiting = 2, .stalled_us = 31'500'000};
  const auto ready = r.ask("GET", "/ready");
  CHECK(ready.status == 503);
  CHECK(contains(ready.body,
                 "No step has retired for 31.5 s, limit 30 s, while 3 requests run and 2 wait."));
  CHECK(r.ask("GET", "/health").status == 200);
  r.engine.health_now.stalled_us = 120'100'000;
  CHECK(contains(r.ask("GET", "/health").body,
                 "No step has retired for 120.1 s, limit 120 s, while 3 requests"));
  r.engine.health_now = {};
  CHECK(r.ask("GET", "/ready").status == 200);
}
