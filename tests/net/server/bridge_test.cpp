// The half of the way from the engine to a socket that knows no socket: posting sinks, a reply on a
// strand with a port that only counts, the registry of ids, the counters. Several threads push at
// once; plain members tell what the strand let through at a time.
#include "net/server/bridge.hpp"

#include <algorithm>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/strand.hpp>
#include <catch2/catch.hpp>
#include <latch>
#include <thread>

#include "net/api/generation_reply.hpp"
#include "net/api/wire_in.hpp"
#include "net/server/metrics.hpp"
#include "tests/support/racing_engine.hpp"

using namespace troupe;
using namespace troupe::net;
using troupe::test::racing_engine;
namespace asio = boost::asio;

namespace {

/// An I/O context with three threads, as the server has it.
struct io_threads {
  io_threads() {
    for (int i = 0; i < 3; ++i) threads.emplace_back([this] { io.run(); });
  }
  ~io_threads() { join(); }
  void join() {
    work.reset();
    for (auto& t : threads) t.join();
    threads.clear();
  }
  asio::io_context io;
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  std::vector<std::thread> threads;
};

struct counting_receiver final : event_receiver {
  explicit counting_receiver(asio::io_context& io) : strand{asio::make_strand(io)} {}
  asio::any_io_executor executor() override { return strand; }
  void on_event(std::uint64_t, std::size_t choice, generation_event event) override {
    if (const auto* d = std::get_if<core::generation_delta>(&event)) {
      disorder += d->completion_tokens != ++seen[choice];
    } else if (std::holds_alternative<core::generation_end>(event)) {
      ++ends;
    }
    ++events;
    published = events;
  }
  asio::strand<asio::io_context::executor_type> strand;
  std::uint32_t seen[4] = {}, disorder = 0, ends = 0, events = 0;  // the strand alone orders these
  std::atomic<std::uint32_t> published = 0;
};

void push_all(core::generation_sink& sink, std::uint32_t deltas) {
  sink.accepted(3);
  for (std::uint32_t i = 1; i <= deltas; ++i) {
    core::generation_delta d;
    d.text = "text that is too long for a short string";
    d.completion_tokens = i;
    sink.delta(std::move(d));
  }
  sink.end({});
}

std::vector<std::thread> four_pushers(const std::vector<std::shared_ptr<posting_sink>>& sinks) {
  std::vector<std::thread> threads;
  for (const auto& sink : sinks) threads.emplace_back([sink] { push_all(*sink, 500); });
  return threads;
}

std::vector<std::shared_ptr<posting_sink>> four_sinks(const std::shared_ptr<event_receiver>& to) {
  std::vector<std::shared_ptr<posting_sink>> sinks;
  for (std::size_t choice = 0; choice < 4; ++choice)
    sinks.push_back(std::make_shared<posting_sink>(to, 1, choice));
  return sinks;
}

/// A connection without a socket: its port takes the bytes and reports them written one post later.
struct socketless final : event_receiver, reply_port, std::enable_shared_from_this<socketless> {
  socketless(asio::io_context& io, route_context& c) : strand{asio::make_strand(io)}, context{c} {}
  asio::any_io_executor executor() override { return strand; }
  void on_event(std::uint64_t, std::size_t choice, generation_event event) override {
    if (reply) reply->on_event(choice, std::move(event));
  }
  void send_whole(http_reply) override { over = true; }
  void send_stream_head(header_list) override { bytes += 1; }
  void send_chunk(std::string data, std::size_t credit) override {
    bytes += data.size();
    if (credit == static_cast<std::size_t>(-1)) return;
    asio::post(strand, [self = shared_from_this(), credit] {
      if (self->reply) self->reply->on_written(credit);
    });
  }
  void send_stream_end() override { over = true; }
  void begin(const std::string& body) {
    asio::post(strand, [self = shared_from_this(), body] {
      auto parsed = parse_chat(body, self->context.limits);
      self->reply = std::make_unique<generation_reply>(
          self->context, std::get<api_request>(std::move(parsed)), 1, *self);
      self->reply->start(self->weak_from_this());
    });
  }
  void close() {
    asio::post(strand, [self = shared_from_this()] {
      if (!self->reply) return;
      self->reply->cancel(core::end_reason::client_gone, self->context.engine.now());
      self->reply.reset();
    });
  }
  asio::strand<asio::io_context::executor_type> strand;
  route_context& context;
  std::unique_ptr<generation_reply> reply;
  std::size_t bytes = 0;  // the strand alone orders it
  std::atomic<bool> over = false;
};

struct noted_generation final : core::generation {
  explicit noted_generation(std::atomic<std::uint64_t>& c) : cancels{c} {}
  core::request_id id() const override { return {1}; }
  core::life_phase phase() const override { return core::life_phase::decode; }
  void delivered() override {}
  void cancel(core::end_reason, core::time_us) override { ++cancels; }
  std::atomic<std::uint64_t>& cancels;
};

}  // namespace

TEST_CASE("bridge: what four threads post arrives one at a time and in each choice's order",
          "[net][race]") {
  io_threads io;
  const auto receiver = std::make_shared<counting_receiver>(io.io);
  const auto sinks = four_sinks(receiver);
  for (auto& t : four_pushers(sinks)) t.join();
  CHECK(racing_engine::eventually([&] { return receiver->published == 4 * 502; }));
  CHECK(receiver->disorder == 0);
  CHECK(receiver->ends == 4);
}

TEST_CASE("bridge: a receiver that goes while four threads post swallows the rest", "[net][race]") {
  io_threads io;
  for (int round = 0; round < 20; ++round) {
    auto receiver = std::make_shared<counting_receiver>(io.io);
    const std::weak_ptr<counting_receiver> watched = receiver;
    const auto sinks = four_sinks(receiver);
    auto threads = four_pushers(sinks);
    CHECK(racing_engine::eventually([&] { return receiver->published > 50; }));
    receiver.reset();
    for (auto& t : threads) t.join();
    CHECK(racing_engine::eventually([&] { return watched.expired(); }));
  }
}

TEST_CASE(
    "generation_reply: replies on strands stand events from engine threads and closes between them",
    "[net][race]") {
  io_threads io;
  racing_engine engine;
  metrics counters;
  route_context context{runtime_config{}, engine, counters};
  std::vector<std::shared_ptr<socketless>> all;
  engine.pieces = 10;
  for (int i = 0; i < 60; ++i) {
    all.push_back(std::make_shared<socketless>(io.io, context));
    all.back()->begin(i % 2 ? R"({"messages":[{"role":"user","content":"hi"}],"stream":true,"n":4})"
                            : R"({"messages":[{"role":"user","content":"hi"}],"n":2})");
    if (i % 3 == 0) all[static_cast<std::size_t>(i) / 2]->close();
  }
  CHECK(racing_engine::eventually(
      [&] { return engine.submitted == 30 * 4 + 30 * 2 && engine.idle(); }));
  CHECK(racing_engine::eventually([&] {  // all that were not closed
    return std::count_if(all.begin(), all.end(), [](const auto& c) { return c->over.load(); }) >=
           40;
  }));
  CHECK(engine.overruns == 0);
  CHECK(engine.vanished == 0);
  CHECK(engine.left_again == 0);
  io.join();  // before what its threads use
}

TEST_CASE("cancel_registry: opens, closes and cancels of the same ids from four threads",
          "[net][race]") {
  cancel_registry registry{16};
  std::atomic<std::uint64_t> cancels = 0, accepted = 0, open = 0;
  std::vector<std::thread> threads;
  for (int who = 0; who < 4; ++who)
    threads.emplace_back([&, who] {
      for (int i = 0; i < 400; ++i) {
        const std::string id = "resp_" + std::to_string(i % 7);
        if (who % 2) {
          accepted += registry.cancel(id, 1) == cancel_outcome::cancelled;
          continue;
        }
        const auto generation = std::make_shared<noted_generation>(cancels);
        registry.opened(id, {generation});
        ++open;
        if (i % 3) registry.closed(id);
      }
    });
  for (auto& t : threads) t.join();
  CHECK(open == 800);
  CHECK(cancels <= accepted);  // a generation that has ended is not called
  for (int i = 0; i < 7; ++i) registry.closed("resp_" + std::to_string(i));
  for (int i = 0; i < 7; ++i)
    CHECK(registry.cancel("resp_" + std::to_string(i), 1) != cancel_outcome::cancelled);
}

TEST_CASE("metrics: a scrape between reports sees the pool's numbers together", "[net][race]") {
  metrics counters;
  std::atomic<bool> done = false;
  std::latch together{4};  // a report may be over before the next thread runs
  std::vector<std::thread> threads;
  for (int who = 0; who < 3; ++who)
    threads.emplace_back([&, who] {
      together.arrive_and_wait();
      for (std::uint64_t i = 1; i <= 300; ++i) {
        counters.on_step({i, 4, 2, 2, 900});
        counters.on_http_request("/health", "GET", 200 + who);
        counters.on_disconnect(transport::sse, core::life_phase::decode);
        counters.on_load(static_cast<std::uint32_t>(i), 0);
        if (who == 0)
          counters.on_released(core::end_reason::length, false, 1, {300, 300 - i, 0, 0, 300, 0});
      }
    });
  std::uint64_t torn = 0, scrapes = 0;
  const auto value = [](const std::string& text, const std::string& name) {
    const auto at = text.find("\n" + name + " ");
    return at == text.npos ? -1 : std::stoi(text.substr(at + name.size() + 2));
  };
  std::thread scraper{[&] {
    together.arrive_and_wait();
    do {
      const auto text = counters.scrape();
      const int used = value(text, "troupe_kv_blocks_used"),
                total = value(text, "troupe_kv_blocks_total");
      const int back = value(text, "troupe_kv_blocks_released_total{reason=\"length\"}");
      if (total == 300) torn += used + back != 300;
      ++scrapes;
    } while (!done);
  }};
  for (auto& t : threads) t.join();
  done = true;
  scraper.join();
  CHECK(scrapes > 0);
  CHECK(torn == 0);
  const auto text = counters.scrape();
  CHECK(value(text, "troupe_kv_blocks_used") == 0);
  CHECK(value(text, "troupe_kv_blocks_released_total{reason=\"length\"}") == 300);
}
