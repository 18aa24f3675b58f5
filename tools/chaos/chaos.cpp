// troupe-chaos: clients that die in every way at every moment, against a running server. The
// command line, the server where it is started here, and the exit code: 0 passed, 1 a promise was
// broken or nothing could be tested, 2 usage.
#include <fmt/format.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <cstring>
#include <exception>
#include <utility>

#include "tools/chaos/campaign.hpp"
#include "tools/chaos/report.hpp"
#include "tools/chaos/server_process.hpp"
#include "tools/chaos/settings.hpp"
#include "tools/client/relay_process.hpp"

namespace troupe::chaos {
namespace {

/// What the server says of itself when it is started here.
void take_facts(const server_process& server, settings& s, tally& t) {
  const auto number = [&](const char* name, auto otherwise) {
    return server.facts().value(name, otherwise);
  };
  if (s.rss_pid == 0) s.rss_pid = server.pid();
  if (s.pool_bytes == 0) s.pool_bytes = number("pool_bytes", s.pool_bytes);
  if (s.pool_tokens == 0) s.pool_tokens = number("pool_tokens", s.pool_tokens);
  if (s.context == 0) s.context = number("effective_context", s.context);
  t.pool_bytes = s.pool_bytes;
}

target target_for(asio::io_context& io, const settings& s, const std::string& url) {
  target to{io, {}, api_client::parse_url(url)};
  to.address.api_key = s.api_key;
  to.address.model = s.model;
  to.server = resolve(io, to.address).front();
  return to;
}

/// The first SIGINT or SIGTERM ends the run after the wave under way, with its report; the second
/// ends the program.
void stop_on_signal(asio::signal_set& signals, campaign& all) {
  signals.async_wait([&](boost::system::error_code cancelled, int) {
    if (cancelled) return;
    all.stop();
    signals.clear();
  });
}

void run_to_end(asio::io_context& io, campaign& all, bool progress_shown) {
  bool done = false;
  std::exception_ptr failed;
  asio::co_spawn(io, all.run(), [&](std::exception_ptr error) {
    failed = std::move(error);
    done = true;
  });
  while (!done) io.run_one();
  io.poll();  // clients on their way out
  if (progress_shown) fmt::print(stderr, "\r\x1b[K");
  if (failed) std::rethrow_exception(failed);
}

int run(settings s) {
  asio::io_context io{1};
  tally found;
  std::unique_ptr<server_process> server;
  found.url = s.url;
  found.pool_bytes = s.pool_bytes;
  if (!s.serve.empty()) {
    server = std::make_unique<server_process>(io, s.serve);
    found.url = server->wait_ready(std::chrono::seconds(120));
    take_facts(*server, s, found);
  }
  const bool terminal = isatty(STDERR_FILENO) != 0;
  const auto to = target_for(io, s, found.url);
  // Outlives the server's stop, which runs the I/O and with it what is left of its clients.
  campaign all{s, to, found, [&] {
                 if (terminal) fmt::print(stderr, "\r\x1b[K{}", progress_line(s, found));
               }};
  asio::signal_set signals{io, SIGINT, SIGTERM};
  stop_on_signal(signals, all);
  try {
    run_to_end(io, all, terminal);
  } catch (const std::exception& error) {
    if (found.waves == 0 && !server) throw;
    found.fail(fmt::format("after wave {}: {}", found.waves, error.what()));
  }
  if (server) {
    found.server_exit = server->stop(std::chrono::seconds(30));
    if (*found.server_exit != 0)
      found.fail(fmt::format("the server's exit code after SIGTERM was {}; its last lines:{}",
                             *found.server_exit, server->last_lines()));
  }
  if (s.json || isatty(STDOUT_FILENO) == 0)
    fmt::print("{}\n", in_json(s, found));
  else
    fmt::print("{}", in_words(s, found));
  return found.failure_count == 0 ? 0 : 1;
}

}  // namespace
}  // namespace troupe::chaos

int main(int argc, char** argv) {
  using namespace troupe::chaos;
  std::signal(SIGPIPE, SIG_IGN);
  if (argc == 4 && std::strcmp(argv[1], troupe::api_client::relay_word) == 0)
    return troupe::api_client::run_relay(argv[2], argv[3]);
  settings asked;
  if (const auto code = parse(argc, argv, asked)) return *code;
  try {
    return run(std::move(asked));
  } catch (const std::exception& error) {
    fmt::print(stderr, "troupe-chaos: {}\n", error.what());
    return 1;
  }
}
