#include "net/server/metrics.hpp"

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <mutex>

namespace troupe::net {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;
using buckets = prometheus::Histogram::BucketBoundaries;

// Seconds. Latencies have the bounds of vLLM, with smaller ones in front, so that dashboards carry
// over; releases and steps have bounds of their own.
const buckets first_token_buckets{.001, .005, .01, .02, .04, .06, .08, .1, .25, .5,  .75,
                                  1,    2.5,  5,   7.5, 10,  20,  40,  80, 160, 640, 2560};
const buckets inter_token_buckets{.0005, .001, .002, .005, .01, .025, .05, .075, .1, .15, .2, .3,
                                  .4,    .5,   .75,  1,    2.5, 5,    7.5, 10,   20, 40,  80};
const buckets latency_buckets{.005, .01, .025, .05, .1, .3, .5, .8,  1,   1.5, 2,   2.5,  5,
                              10,   15,  20,   30,  40, 50, 60, 120, 240, 480, 960, 1920, 7680};
const buckets release_buckets{.001, .002, .005, .01, .02, .05, .1, .2, .5, 1, 2, 5, 10, 30};
const buckets step_buckets{.0005, .001, .002, .005, .01, .02, .03, .05, .075,
                           .1,    .15,  .2,   .5,   1,   2,   5,   10};
// Counts.
const buckets token_buckets{1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384};
const buckets sequence_buckets{1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 256};

/// Label of kv_blocks_released_total, by end_reason.
constexpr std::array<const char*, core::end_reason_count> release_labels{
    "finish", "stop",    "stop",     "stop",    "stop",        "length", "client_disconnect",
    "cancel", "timeout", "timeout",  "timeout", "slow_reader", "crash",  "error",
    "error",  "error",   "shutdown", "error",   "error"};
/// Label of request_success_total, by end_reason: every ended request counts once.
constexpr std::array<const char*, core::end_reason_count> finished_labels{
    "stop",      "stop",    "stop",     "confidence", "repetition", "length", "abort",
    "cancelled", "timeout", "timeout",  "timeout",    "error",      "error",  "error",
    "error",     "error",   "shutdown", "error",      "refused"};
constexpr std::array<const char*, core::move_outcome_count> move_labels{"ok", "host_full", "failed",
                                                                        "corrupt", "late"};
constexpr std::array<const char*, 3> transport_labels{"http", "sse", "ws"};
constexpr std::array phase_labels{"queued", "prefill", "decode", "done", "parked"};

/// In pages in the kernel's file; what is shared counts as well.
double resident_bytes() {
  std::ifstream statm{"/proc/self/statm"};
  double pages = 0, resident = 0;
  statm >> pages >> resident;
  return resident * static_cast<double>(::sysconf(_SC_PAGESIZE));
}

/// Prometheus' base unit of time.
double seconds(std::uint64_t us) {
  return static_cast<double>(us) / 1e6;
}

}  // namespace

struct metrics::impl {
  prometheus::Registry registry;

  // Prometheus-cpp keeps what it makes for the registry's life, so references stay valid.
  prometheus::Counter& counter(const char* name, const char* text,
                               const prometheus::Labels& labels = {}) {
    return BuildCounter().Name(name).Help(text).Register(registry).Add(labels);
  }
  prometheus::Gauge& gauge(const char* name, const char* text,
                           const prometheus::Labels& labels = {}) {
    return BuildGauge().Name(name).Help(text).Register(registry).Add(labels);
  }
  prometheus::Histogram& histogram(const char* name, const char* text, const buckets& b) {
    return BuildHistogram().Name(name).Help(text).Register(registry).Add({}, b);
  }
  /// One counter for each distinct value of the table, in the table's order.
  template <std::size_t N>
  std::array<prometheus::Counter*, N> by_reason(const char* name, const char* text,
                                                const char* label,
                                                const std::array<const char*, N>& values) {
    auto& family = BuildCounter().Name(name).Help(text).Register(registry);
    std::array<prometheus::Counter*, N> all{};
    for (std::size_t i = 0; i < N; ++i) all[i] = &family.Add({{label, values[i]}});
    return all;
  }

  prometheus::Gauge& running = gauge("troupe_num_requests_running", "Requests that hold KV blocks");
  prometheus::Gauge& waiting = gauge("troupe_num_requests_waiting", "Requests in the queue");
  prometheus::Gauge& kv_total = gauge("troupe_kv_blocks_total", "KV blocks of the pool");
  prometheus::Gauge& kv_used = gauge("troupe_kv_blocks_used", "KV blocks leased to requests");
  prometheus::Gauge& kv_cached =
      gauge("troupe_kv_blocks_cached", "KV blocks kept for prefix reuse");
  prometheus::Gauge& kv_quarantined =
      gauge("troupe_kv_blocks_quarantined",
            "KV blocks that no request gets any more, after a broken invariant or a leak");
  prometheus::Gauge& kv_leaked = gauge(
      "troupe_kv_leaked_blocks", "KV blocks leased to no known request, ever found by audits");
  prometheus::Counter& kv_allocated =
      counter("troupe_kv_blocks_allocated_total", "KV blocks ever granted");
  std::array<prometheus::Counter*, core::end_reason_count> kv_released = by_reason(
      "troupe_kv_blocks_released_total", "KV blocks given back", "reason", release_labels);
  prometheus::Counter& kv_released_preempt =
      counter("troupe_kv_blocks_released_total", "KV blocks given back", {{"reason", "preempt"}});
  prometheus::Histogram& release_latency = histogram(
      "troupe_kv_release_latency_seconds",
      "From when the server noticed why a request ends (that its client left, say) until its "
      "KV blocks are back",
      release_buckets);
  prometheus::Counter& prompt_tokens =
      counter("troupe_prompt_tokens_total", "Prompt tokens of ended requests");
  prometheus::Counter& generation_tokens =
      counter("troupe_generation_tokens_total", "Sampled tokens of ended requests");
  prometheus::Counter& preemptions =
      counter("troupe_num_preemptions_total",
              "Requests whose KV blocks were taken for others; they go on later");
  prometheus::Counter& parks =
      counter("troupe_num_parks_total", "Preemptions that copied the KV blocks to the host tier");
  prometheus::Counter& prefix_queries =
      counter("troupe_prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache");
  prometheus::Counter& prefix_hits =
      counter("troupe_prefix_cache_hits_total", "Prompt tokens found in the prefix cache");
  prometheus::Gauge& host_total =
      gauge("troupe_kv_host_blocks_total", "KV blocks that fit the host tier");
  prometheus::Gauge& host_used = gauge("troupe_kv_blocks_offloaded", "KV blocks on the host tier");
  prometheus::Gauge& host_leaked =
      gauge("troupe_kv_host_leaked_blocks",
            "KV blocks on the host tier of no known request, found by audits and freed");
  std::array<std::array<prometheus::Counter*, core::move_outcome_count>, 2>
      moves{};  // [out][outcome]
  std::array<prometheus::Histogram*, 2> move_time{};
  std::array<prometheus::Counter*, core::end_reason_count> finished =
      by_reason("troupe_request_success_total", "Ended requests by reason; abort = the client left",
                "finished_reason", finished_labels);
  prometheus::Histogram& first_token = histogram(
      "troupe_time_to_first_token_seconds", "From submit to the first token", first_token_buckets);
  prometheus::Histogram& inter_token =
      histogram("troupe_inter_token_latency_seconds", "Time between two tokens of a request",
                inter_token_buckets);
  prometheus::Histogram& e2e =
      histogram("troupe_e2e_request_latency_seconds", "From submit to the end", latency_buckets);
  prometheus::Histogram& queue_time =
      histogram("troupe_request_queue_time_seconds", "Time in the queue", latency_buckets);
  prometheus::Histogram& prefill_time =
      histogram("troupe_request_prefill_time_seconds",
                "From the first step of a request to its first token", latency_buckets);
  prometheus::Histogram& decode_time = histogram(
      "troupe_request_decode_time_seconds", "From the first to the last token", latency_buckets);
  prometheus::Histogram& request_prompt =
      histogram("troupe_request_prompt_tokens", "Prompt tokens of a request", token_buckets);
  prometheus::Histogram& request_generation =
      histogram("troupe_request_generation_tokens", "Sampled tokens of a request", token_buckets);
  prometheus::Histogram& step_time =
      histogram("troupe_step_seconds", "Duration of a batched step", step_buckets);
  prometheus::Histogram& step_tokens =
      histogram("troupe_iteration_tokens_total", "Tokens computed in a step", token_buckets);
  prometheus::Histogram& step_sequences =
      histogram("troupe_step_sequences", "Sequences computed in a step", sequence_buckets);
  prometheus::Counter& violations =
      counter("troupe_invariant_violations_total", "Internal invariants found broken; must stay 0");
  prometheus::Gauge& resident =
      gauge("troupe_process_resident_memory_bytes", "Resident memory of the process");
  std::array<std::array<prometheus::Counter*, core::life_phase_count>, 3> disconnects{};
  std::array<prometheus::Counter*, 3> slow_readers =
      by_reason("troupe_slow_readers_total", "Connections ended because the client did not read",
                "transport", transport_labels);
  prometheus::Gauge& ws_active = gauge("troupe_websocket_connections_active", "Open WebSockets");
  prometheus::Counter& ws_total =
      counter("troupe_websocket_connections_total", "WebSockets ever opened");
  prometheus::Family<prometheus::Counter>& http_requests = BuildCounter()
                                                               .Name("troupe_http_requests_total")
                                                               .Help("HTTP requests answered")
                                                               .Register(registry);

  impl() {
    auto& family = BuildCounter()
                       .Name("troupe_client_disconnects_total")
                       .Help(
                           "Clients that left during a request, by transport and by what the "
                           "request was doing")
                       .Register(registry);
    for (std::size_t t = 0; t < transport_labels.size(); ++t)
      for (std::size_t p = 0; p < phase_labels.size(); ++p)
        disconnects[t][p] =
            &family.Add({{"transport", transport_labels[t]}, {"phase", phase_labels[p]}});
    auto& moved = BuildCounter()
                      .Name("troupe_kv_moved_blocks_total")
                      .Help("KV blocks copied between the tiers, by how the copy ended")
                      .Register(registry);
    auto& took = BuildHistogram()
                     .Name("troupe_kv_move_seconds")
                     .Help("Duration of a copy between the tiers")
                     .Register(registry);
    for (int out = 0; out < 2; ++out) {
      const char* direction = out ? "out" : "in";
      move_time[out] = &took.Add({{"direction", direction}}, step_buckets);
      for (int i = 0; i < core::move_outcome_count; ++i)
        moves[out][i] = &moved.Add({{"direction", direction}, {"outcome", move_labels[i]}});
    }
    gauge("troupe_build_info", "Always 1; the build as labels", {{"version", TROUPE_VERSION}})
        .Set(1);
  }

  // Pool counts and releases change together, and a scrape sees them together.
  std::mutex pool_mutex;
  void set_pool(const core::pool_record&);
};

void metrics::impl::set_pool(const core::pool_record& pool) {
  // Gauges are set, the counter catches up: records may arrive late but never go back.
  kv_total.Set(static_cast<double>(pool.total));
  kv_used.Set(static_cast<double>(pool.used));
  kv_cached.Set(static_cast<double>(pool.cached));
  kv_quarantined.Set(static_cast<double>(pool.quarantined));
  kv_leaked.Set(static_cast<double>(pool.leaked));
  const auto allocated = static_cast<double>(pool.allocated_total);
  if (allocated > kv_allocated.Value()) kv_allocated.Increment(allocated - kv_allocated.Value());
}

metrics::metrics() : impl_{std::make_unique<impl>()} {}
metrics::~metrics() = default;

void metrics::on_end(const core::request_record& r) {
  auto& m = *impl_;
  // Refused requests are counted and observed in no histogram: they have waited for nothing and
  // computed nothing.
  m.finished[static_cast<std::size_t>(r.reason)]->Increment();
  if (r.reason == core::end_reason::refused) return;
  m.prompt_tokens.Increment(r.usage.prompt);
  m.generation_tokens.Increment(r.usage.completion);
  m.request_prompt.Observe(r.usage.prompt);
  m.request_generation.Observe(r.usage.completion);
  m.e2e.Observe(seconds(r.times.total_us));
  m.queue_time.Observe(seconds(r.times.queue_us));
  // Ended before its first token: there is no such time, and 0 would count as a fast one.
  if (r.times.first_token_us == 0) return;
  m.first_token.Observe(seconds(r.times.first_token_us));
  m.prefill_time.Observe(seconds(r.times.prefill_us));
  m.decode_time.Observe(seconds(r.times.decode_us));
}

void metrics::on_step(const core::step_record& s) {
  impl_->step_time.Observe(seconds(s.elapsed_us));
  impl_->step_tokens.Observe(s.prefill_tokens + s.decode_tokens);
  impl_->step_sequences.Observe(s.sequences);
}

void metrics::on_pool(const core::pool_record& pool) {
  const std::lock_guard lock{impl_->pool_mutex};
  impl_->set_pool(pool);
}

void metrics::on_released(core::end_reason why, bool preempted, std::uint32_t blocks,
                          const core::pool_record& pool) {
  const std::lock_guard lock{impl_->pool_mutex};
  auto& released =
      preempted ? impl_->kv_released_preempt : *impl_->kv_released[static_cast<std::size_t>(why)];
  released.Increment(blocks);
  impl_->set_pool(pool);
}

void metrics::on_release_latency(double s) {
  impl_->release_latency.Observe(s);
}

void metrics::on_load(std::uint32_t running, std::uint32_t waiting) {
  impl_->running.Set(running);
  impl_->waiting.Set(waiting);
}

void metrics::on_preemption(bool parked) {
  impl_->preemptions.Increment();
  if (parked) impl_->parks.Increment();
}
void metrics::on_move(const core::move_record& m) {
  impl_->moves[m.out][static_cast<std::size_t>(m.outcome)]->Increment(m.blocks);
  impl_->move_time[m.out]->Observe(seconds(m.elapsed_us));
}
void metrics::on_host_tier(const core::host_tier_record& h) {
  impl_->host_total.Set(static_cast<double>(h.total));
  impl_->host_used.Set(static_cast<double>(h.used));
  impl_->host_leaked.Set(static_cast<double>(h.leaked));
}
void metrics::on_prefix(std::uint32_t queried, std::uint32_t hit) {
  impl_->prefix_queries.Increment(queried);
  impl_->prefix_hits.Increment(hit);
}
void metrics::on_inter_token(double s) {
  impl_->inter_token.Observe(s);
}
void metrics::on_violation(const std::string&) {
  impl_->violations.Increment();
}

void metrics::on_disconnect(transport t, core::life_phase p) {
  impl_->disconnects[static_cast<std::size_t>(t)][static_cast<std::size_t>(p)]->Increment();
}

void metrics::on_slow_reader(transport t) {
  impl_->slow_readers[static_cast<std::size_t>(t)]->Increment();
}

void metrics::on_websocket_open() {
  impl_->ws_active.Increment();
  impl_->ws_total.Increment();
}

void metrics::on_websocket_closed() {
  impl_->ws_active.Decrement();
}

void metrics::on_http_request(std::string_view route, std::string_view method, int status) {
  // A label's values must be few: a client may send any word as its method.
  static constexpr std::array known{"GET", "HEAD", "POST", "OPTIONS"};
  const bool is_known = std::find(known.begin(), known.end(), method) != known.end();
  impl_->http_requests
      .Add({{"route", std::string{route}},
            {"method", is_known ? std::string{method} : "other"},
            {"status", std::to_string(status)}})
      .Increment();
}

std::string metrics::scrape() {
  // Read when asked for, not on a timer.
  impl_->resident.Set(resident_bytes());
  const std::lock_guard lock{impl_->pool_mutex};
  return prometheus::TextSerializer{}.Serialize(impl_->registry.Collect());
}

}  // namespace troupe::net
