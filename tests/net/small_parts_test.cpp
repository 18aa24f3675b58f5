#include <catch2/catch.hpp>
#include <map>

#include "net/api/api_table.hpp"
#include "net/server/cancel_registry.hpp"
#include "net/server/metrics.hpp"
#include "net/server/outbound.hpp"
#include "net/server/random_id.hpp"
#include "tests/net/test_client.hpp"

using namespace troupe;
using namespace troupe::net;
using troupe::net::test::contains;

TEST_CASE("api_table: a field stands once for each endpoint and has a level that fits its default",
          "[net]") {
  std::map<std::string, unsigned> seen;
  for (const auto& field : api_fields()) {
    CAPTURE(field.name);
    CHECK((seen[field.name] & field.endpoints) == 0);
    seen[field.name] |= field.endpoints;
  }
  CHECK(seen["model"] == 31u);
}

TEST_CASE("outbound: frames coalesce into one write and give their credits back when it has left",
          "[net]") {
  outbound out{100};
  CHECK(out.push("ab", 1) == push_result::ok);
  REQUIRE(out.begin_write());
  CHECK(out.push("cd", 2) == push_result::ok);
  CHECK(out.push("ef") == push_result::ok);
  CHECK_FALSE(out.begin_write());
  CHECK_FALSE(out.advance(1));
  CHECK(out.writing() == "b");
  CHECK(out.advance(1));
  CHECK(out.credits() == std::vector<std::size_t>{1});
  REQUIRE(out.begin_write());
  CHECK(out.writing() == "cdef");
  CHECK(out.advance(4));
  CHECK(out.credits() == std::vector<std::size_t>{2});
  CHECK(out.empty());
}

TEST_CASE("outbound: half full is backpressure, full is dropped, an empty queue takes any frame",
          "[net]") {
  outbound out{10};
  CHECK(out.push("1234") == push_result::ok);
  CHECK(out.push("56") == push_result::backpressure);
  CHECK(out.push("7890x") == push_result::dropped);
  CHECK(out.bytes() == 6);
  outbound large{2};
  CHECK(large.push("much more") == push_result::backpressure);
}

TEST_CASE("cancel_registry: running, over and unknown are told apart, and memory is bounded",
          "[net]") {
  struct counted final : core::generation {
    core::request_id id() const override { return {1}; }
    core::life_phase phase() const override { return core::life_phase::queued; }
    void delivered() override {}
    void cancel(core::end_reason, core::time_us) override { ++count; }
    int count = 0;
  };
  auto generation = std::make_shared<counted>();
  cancel_registry registry{2};
  registry.opened("a", {generation});
  CHECK(registry.cancel("a", 0) == cancel_outcome::cancelled);
  CHECK(generation->count == 1);
  registry.closed("a");
  CHECK(registry.cancel("a", 0) == cancel_outcome::already_over);
  CHECK(registry.cancel("b", 0) == cancel_outcome::unknown);
  for (const char* id : {"x", "y"}) {
    registry.opened(id, {});
    registry.closed(id);
  }
  CHECK(registry.cancel("a", 0) == cancel_outcome::unknown);
  CHECK(registry.cancel("y", 0) == cancel_outcome::already_over);
}

TEST_CASE("random_id: ids differ and are long", "[net]") {
  CHECK(random_id("x_").size() == 34);
  CHECK(random_id("x_") != random_id("x_"));
}

TEST_CASE("metrics: every fixed label shows as zero before anything happens", "[net]") {
  metrics m;
  const auto text = m.scrape();
  for (const char* line :
       {"troupe_num_requests_running 0", "troupe_num_requests_waiting 0",
        "troupe_kv_blocks_allocated_total 0",
        "troupe_kv_blocks_released_total{reason=\"client_disconnect\"} 0",
        "troupe_kv_blocks_released_total{reason=\"preempt\"} 0", "troupe_kv_leaked_blocks 0",
        "troupe_client_disconnects_total{phase=\"prefill\",transport=\"sse\"} 0",
        "troupe_prompt_tokens_total 0", "troupe_request_success_total{finished_reason=\"abort\"} 0",
        "troupe_invariant_violations_total 0",
        "troupe_build_info{version=", "troupe_step_seconds_count 0",
        "troupe_iteration_tokens_total_count 0", "troupe_websocket_connections_active 0"}) {
    CAPTURE(line);
    CHECK(contains(text, line));
  }
  CHECK_FALSE(contains(text, "troupe_process_resident_memory_bytes 0\n"));
}

TEST_CASE("metrics: one scrape has allocated - released = used, with each reason under its label",
          "[net]") {
  metrics m;
  m.on_pool({.total = 10, .used = 6, .allocated_total = 6});
  m.on_released(core::end_reason::client_gone, false, 2,
                {.total = 10, .used = 4, .allocated_total = 6});
  m.on_released(core::end_reason::length, true, 1, {.total = 10, .used = 3, .allocated_total = 6});
  core::request_record gone;
  gone.reason = core::end_reason::client_gone;
  gone.usage = {5, 0, 3};
  gone.times = {1, 2000, 3, 4, 5};
  m.on_end(gone);
  const auto text = m.scrape();
  CHECK(contains(text, "troupe_kv_blocks_used 3"));
  CHECK(contains(text, "troupe_kv_blocks_allocated_total 6"));
  CHECK(contains(text, "troupe_kv_blocks_released_total{reason=\"client_disconnect\"} 2"));
  CHECK(contains(text, "troupe_kv_blocks_released_total{reason=\"preempt\"} 1"));
  CHECK(contains(text, "troupe_request_success_total{finished_reason=\"abort\"} 1"));
  CHECK(contains(text, "troupe_generation_tokens_total 3"));
  CHECK(contains(text, "troupe_time_to_first_token_seconds_bucket{le=\"0.005\"} 1"));
}

TEST_CASE("metrics: each reason of an ended request counts under the label of its kind", "[net]") {
  using core::end_reason;
  const std::vector<std::pair<end_reason, std::string>> labels{
      {end_reason::end_token, "stop"},
      {end_reason::stop_string, "stop"},
      {end_reason::stop_confidence, "confidence"},
      {end_reason::stop_repetition, "repetition"},
      {end_reason::length, "length"},
      {end_reason::client_gone, "abort"},
      {end_reason::cancelled, "cancelled"},
      {end_reason::queue_timeout, "timeout"},
      {end_reason::total_timeout, "timeout"},
      {end_reason::slow_reader, "error"},
      {end_reason::engine_failed, "error"},
      {end_reason::shutdown, "shutdown"},
      {end_reason::refused, "refused"}};
  const std::vector<std::pair<end_reason, std::string>> releases{
      {end_reason::end_token, "finish"},
      {end_reason::stop_confidence, "stop"},
      {end_reason::stop_repetition, "stop"},
      {end_reason::length, "length"},
      {end_reason::client_gone, "client_disconnect"},
      {end_reason::cancelled, "cancel"},
      {end_reason::first_token_timeout, "timeout"},
      {end_reason::slow_reader, "slow_reader"},
      {end_reason::session_crash, "crash"},
      {end_reason::bad_logits, "error"},
      {end_reason::shutdown, "shutdown"}};
  for (const auto& [reason, label] : labels) {
    CAPTURE(static_cast<int>(reason));
    metrics m;
    core::request_record r;
    r.reason = reason;
    m.on_end(r);
    CHECK(
        contains(m.scrape(), "troupe_request_success_total{finished_reason=\"" + label + "\"} 1"));
  }
  for (const auto& [reason, label] : releases) {
    CAPTURE(static_cast<int>(reason));
    metrics m;
    m.on_released(reason, false, 1, {});
    CHECK(contains(m.scrape(), "troupe_kv_blocks_released_total{reason=\"" + label + "\"} 1"));
  }
}
