// A whole start of `troupe serve`, in a child process, with each of its threads refused in turn.
#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <string>

#include "tests/support/refused_threads.hpp"
#include "tests/support/temporary_file.hpp"
#include "tests/support/tiny_llama.hpp"
#include "tools/cli/serve.hpp"

using namespace troupe;
using Catch::Matchers::Contains;

namespace {

struct outcome {
  bool served = false, hung = false;
  int status = 0;
  std::string errors;
};

/// Serves until it is ready, then sends SIGTERM.
outcome serve_without_thread(int which, const runtime_config& config) {
  int out[2], err[2];
  REQUIRE(pipe2(out, O_CLOEXEC) == 0);
  REQUIRE(pipe2(err, O_CLOEXEC) == 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    test::refuse_thread(which);
    _exit(serve(config));
  }
  close(out[1]);
  close(err[1]);
  outcome seen;
  std::string printed;
  pollfd fds[] = {{out[0], POLLIN, 0}, {err[0], POLLIN, 0}};
  for (int open = 2; open > 0;) {
    if (poll(fds, 2, 60'000) <= 0) {  // never reached unless it hangs
      seen.hung = true;
      kill(child, SIGKILL);
      break;
    }
    for (auto& fd : fds) {
      if (!fd.revents) continue;
      char bytes[4096];
      const auto got = read(fd.fd, bytes, sizeof bytes);
      if (got <= 0) {
        fd.fd = -1;
        --open;
      } else {
        (&fd == fds ? printed : seen.errors).append(bytes, static_cast<std::size_t>(got));
      }
    }
    if (!seen.served && printed.find("\"event\":\"ready\"") != printed.npos) {
      seen.served = true;
      kill(child, SIGTERM);
    }
  }
  close(out[0]);
  close(err[0]);
  REQUIRE(waitpid(child, &seen.status, 0) == child);
  return seen;
}

}  // namespace

TEST_CASE("F003 serve: whichever thread is refused, the start ends with one line and exit code 2") {
  const test::temporary_file model(test::tiny_llama_bytes());
  runtime_config config;
  config.model = model.path();
  config.port = 0;
  config.threads = 3;
  config.num_kv_blocks = 16;
  config.kv_offloading_bytes = 16 << 20;  // the mover has a thread as well
  config.log_level = "error";
  int refused = 0;
  for (;; ++refused) {
    const auto seen = serve_without_thread(refused + 1, config);
    INFO("thread " << refused + 1 << ": " << seen.errors);
    REQUIRE_FALSE(seen.hung);
    REQUIRE(WIFEXITED(seen.status));
    if (seen.served) {
      CHECK(WEXITSTATUS(seen.status) == 0);
      CHECK(seen.errors.empty());
      break;
    }
    REQUIRE(WEXITSTATUS(seen.status) == 2);
    REQUIRE(std::count(seen.errors.begin(), seen.errors.end(), '\n') == 1);
    REQUIRE_THAT(seen.errors, Contains("troupe: ") && Contains("thread") && Contains(" is "));
  }
  // The looks ahead (all threads, then CAF's), and every thread that is then really made.
  CHECK(refused >= 2 * 13);
}
