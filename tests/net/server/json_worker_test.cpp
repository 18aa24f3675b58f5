// Work on a worker thread and the end of its connection: a client that leaves while its body, its
// message or its text waits for the worker has its connection destroyed on the connection's own
// strand. The worker is held at a gate, so nothing here depends on speed.
#include "net/server/json_worker.hpp"

#include <atomic>
#include <boost/asio/strand.hpp>
#include <boost/asio/write.hpp>
#include <catch2/catch.hpp>
#include <future>

#include "net/http/http_session.hpp"
#include "net/websocket/ws_messages.hpp"
#include "tests/net/test_client.hpp"

using namespace troupe;
using namespace troupe::net;
using troupe::net::test::fake_engine;
using troupe::net::test::post;
using troupe::net::test::running_server;
using troupe::net::test::test_client;
namespace asio = boost::asio;
using asio::ip::tcp;

namespace {

/// A pool of one thread does nothing until open().
class gate {
 public:
  explicit gate(worker_thread& pool) : pool_{pool} {
    asio::post(pool_, [opened = opened_.get_future().share()] { opened.wait(); });
  }
  /// Answers when the pool has done all it had to.
  void open() {
    opened_.set_value();
    pool_.join();
  }

 private:
  worker_thread& pool_;
  std::promise<void> opened_;
};

/// What a server's connections share; its I/O runs where a test says so.
struct stage {
  fake_engine engine;
  metrics counters;
  std::shared_ptr<server_state> state =
      std::make_shared<server_state>(runtime_config{}, engine, counters);

  void run_until(const std::function<bool()>& condition) {
    while (!condition()) REQUIRE(state->io.run_one_for(std::chrono::seconds{20}) == 1);
  }
  void run_all() {
    state->io.restart();
    state->io.run();
  }
};

/// Sends a request, and a reset when its work waits at the gate.
void check_destroyed_on_its_strand(stage& s, worker_thread& pool, const std::string& request) {
  gate held{pool};
  asio::io_context io;
  tcp::acceptor acceptor{s.state->io, tcp::endpoint{asio::ip::address_v4::loopback(), 0}};
  tcp::socket client{io}, accepted{asio::make_strand(s.state->io)};
  client.connect(acceptor.local_endpoint());
  acceptor.accept(accepted);
  std::make_shared<http_session>(s.state, std::move(accepted))->start();
  const std::weak_ptr<connection> session = s.state->all().front();
  asio::write(client, asio::buffer(request));
  s.run_until([&] { return s.state->busy == 1; });
  client.set_option(asio::socket_base::linger{true, 0});
  client.close();
  s.run_until([&] { return s.state->connections() == 0; });
  acceptor.close();
  s.run_all();
  REQUIRE_FALSE(session.expired());  // its work holds it
  held.open();
  CHECK_FALSE(session.expired());
  s.run_all();
  CHECK(session.expired());
}

struct owning_connection final : connection {
  explicit owning_connection(server_state& state)
      : strand{asio::make_strand(state.io)}, messages{state, [](ws_message) {}, [] {}} {}
  asio::any_io_executor executor() override { return strand; }
  void on_event(std::uint64_t, std::size_t, generation_event) override {}
  void drain() override {}
  void abort() override {}
  asio::strand<asio::io_context::executor_type> strand;
  ws_messages messages;
};

}  // namespace

TEST_CASE(
    "json_worker: a client that leaves while its body waits to be parsed is destroyed on its "
    "strand",
    "[net]") {
  stage s;
  const std::string prompt(long_json, 'x');
  check_destroyed_on_its_strand(s, s.state->json_worker,
                                post("/v1/completions", R"({"prompt":")" + prompt + R"("})"));
  CHECK(s.engine.submitted().empty());
}

TEST_CASE(
    "json_worker: a client that leaves while its text waits for a tool is destroyed on its strand",
    "[net]") {
  stage s;
  check_destroyed_on_its_strand(s, s.state->tool_worker, post("/tokenize", R"({"prompt":"x"})"));
}

TEST_CASE(
    "json_worker: a WebSocket that leaves while its message waits to be parsed is destroyed on its "
    "strand",
    "[net]") {
  stage s;
  gate held{s.state->json_worker};
  auto owner = std::make_shared<owning_connection>(*s.state);
  const std::weak_ptr<connection> session = owner;
  owner->messages.push(std::string(long_json + 1, 'x'));
  owner->messages.run(owner);
  owner->messages.drop();
  owner.reset();
  held.open();
  CHECK_FALSE(session.expired());
  s.run_all();
  CHECK(session.expired());
}

TEST_CASE("json_worker: the answer comes on the strand, and the owner goes with it", "[net]") {
  stage s;
  auto owner = std::make_shared<owning_connection>(*s.state);
  const std::weak_ptr<connection> session = owner;
  int answer = 0;
  gate held{s.state->json_worker};
  const auto& strand = owner->strand;
  run_on_worker(
      s.state->json_worker, std::move(owner), [] { return std::optional{7}; },
      [&](int seven) { answer = strand.running_in_this_thread() ? seven : -1; });
  held.open();
  CHECK(answer == 0);
  s.run_all();
  CHECK(answer == 7);
  CHECK(session.expired());
}

TEST_CASE("json_worker: a long text at /tokenize holds up no short one", "[net]") {
  running_server s;
  std::promise<void> gate;
  std::atomic<int> encodes = 0;
  s.engine.before_encode = [&, opened = gate.get_future().share()] {
    if (encodes++ == 0) opened.wait();
  };
  test_client slow{s.port}, other{s.port};
  slow.send(post("/tokenize", R"({"prompt":")" + std::string(long_json, 'a') + R"("})"));
  REQUIRE(fake_engine::eventually([&] { return encodes == 1; }));
  other.send(post("/tokenize", R"({"prompt":"ab"})"));
  CHECK(other.read_reply().status == 200);
  gate.set_value();
  CHECK(slow.read_reply().status == 200);
}
