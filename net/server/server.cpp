#include "net/server/server.hpp"

#include <algorithm>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <future>
#include <optional>
#include <stdexcept>
#include <vector>

#include "config/threads/joined_thread.hpp"
#include "net/http/http_session.hpp"
#include "net/server/server_state.hpp"

namespace troupe::net {

namespace asio = boost::asio;
using asio::ip::tcp;
using error_code = boost::system::error_code;

namespace {

std::uint32_t io_threads(const runtime_config& config) {
  return std::max<std::uint32_t>(1, config.threads_http);
}

}  // namespace

struct server::impl {
  impl(const runtime_config& config, core::generation_engine& engine, metrics& counters)
      : state{std::make_shared<server_state>(config, engine, counters)},
        // On a strand: drain() comes from another thread.
        acceptor{asio::make_strand(state->io)},
        pause{acceptor.get_executor()} {}

  const runtime_config& config() const { return state->routes.config; }
  std::uint16_t listen();
  void accept();
  void close_acceptor();
  void on_accept(const error_code&, tcp::socket);

  std::shared_ptr<server_state> state;
  tcp::acceptor acceptor;
  asio::steady_timer pause;
  std::optional<asio::executor_work_guard<asio::io_context::executor_type>> work;
  std::vector<joined_thread> threads;
};

std::uint16_t server::impl::listen() {
  const auto fail = [&](const error_code& ec) {
    throw std::runtime_error("cannot listen on " + config().host + ":" +
                             std::to_string(config().port) + ": " + ec.message());
  };
  error_code ec;
  tcp::resolver resolver{state->io};
  const auto found =
      resolver.resolve(config().host, std::to_string(config().port), tcp::resolver::passive, ec);
  if (ec || found.empty()) fail(ec);
  const tcp::endpoint endpoint = found.begin()->endpoint();
  acceptor.open(endpoint.protocol(), ec);
  if (ec) fail(ec);
  // A restarted server may bind while connections of its predecessor are in TIME_WAIT.
  acceptor.set_option(tcp::acceptor::reuse_address{true}, ec);
  acceptor.bind(endpoint, ec);
  if (ec) fail(ec);
  acceptor.listen(asio::socket_base::max_listen_connections, ec);
  if (ec) fail(ec);
  return acceptor.local_endpoint().port();
}

void server::impl::accept() {
  acceptor.async_accept(
      // Each connection has a strand of its own; its socket is born on it.
      asio::make_strand(state->io),
      [this](const error_code& ec, tcp::socket socket) { on_accept(ec, std::move(socket)); });
}

void server::impl::on_accept(const error_code& ec, tcp::socket socket) {
  if (ec == asio::error::operation_aborted || !acceptor.is_open()) return;
  if (ec) {
    // Out of descriptors or memory. Without a pause the loop would take a whole core until some
    // connection closes.
    pause.expires_after(std::chrono::milliseconds{100});
    pause.async_wait([this](const error_code& stopped) {
      if (!stopped) accept();
    });
    return;
  }
  tune(socket, config());
  // At the limit the connection that has been idle longest makes room; when none is idle, the new
  // one gets a 503 rather than a closed port.
  if (state->connections() >= config().max_connections && !state->make_room(false)) {
    std::make_shared<http_session>(state, std::move(socket))->refuse();
  } else {
    std::make_shared<http_session>(state, std::move(socket))->start();
  }
  accept();
}

/// Returns when no more connections can come in.
void server::impl::close_acceptor() {
  std::promise<void> closed;
  asio::post(acceptor.get_executor(), [&] {
    error_code ignored;
    acceptor.close(ignored);
    pause.cancel();
    closed.set_value();
  });
  closed.get_future().wait();
}

std::uint32_t server::threads_needed(const runtime_config& config) {
  return io_threads(config) + server_state::worker_threads;
}

server::server(const runtime_config& config, core::generation_engine& engine, metrics& counters)
    : impl_{std::make_unique<impl>(config, engine, counters)} {}

server::~server() {
  stop();
}

std::uint16_t server::start() {
  // The port last: a client that gets in is served, and a start that fails has opened none.
  // The work guard keeps run() from returning while no connection is open.
  impl_->work.emplace(impl_->state->io.get_executor());
  for (std::uint32_t i = 0; i < io_threads(impl_->config()); ++i)
    impl_->threads.emplace_back("troupe.http", [state = impl_->state] { state->io.run(); });
  const std::uint16_t port = impl_->listen();
  asio::post(impl_->acceptor.get_executor(), [this] { impl_->accept(); });
  return port;
}

void server::drain() {
  impl_->state->routes.draining = true;
  if (impl_->threads.empty()) return;
  impl_->close_acceptor();
  // Behind the acceptor: no connection can come that has not been told.
  for (const auto& c : impl_->state->all()) c->drain();
}

void server::when_idle(std::function<void()> call) {
  impl_->state->busy.when_none(std::move(call));
}

bool server::idle() const {
  return impl_->state->busy == 0;
}

// May be called twice: by the program and by the destructor.
void server::stop() {
  if (impl_->threads.empty()) return;
  drain();
  impl_->state->abort_all();
  impl_->state->json_worker.join();  // it posts to the others, so it ends first
  impl_->state->tool_worker.join();
  impl_->state->long_tool_worker.join();
  // Every socket, timer and the acceptor are closed: the threads run out of work.
  impl_->work.reset();
  for (auto& t : impl_->threads) t.join();
  impl_->threads.clear();
}

}  // namespace troupe::net
