#include "net/server/metrics.hpp"

#include <catch2/catch.hpp>
#include <vector>

#include "tests/net/test_client.hpp"

using namespace troupe;
using namespace troupe::net;
using troupe::net::test::contains;

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
      {end_reason::no_token_allowed, "error"},
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
