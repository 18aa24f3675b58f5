#include "tools/cli/process_events.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <functional>

#include "config/threads/joined_thread.hpp"

using namespace troupe;
using std::chrono::steady_clock;

namespace {

constexpr int returned = 77;

/// The exit code of a child process that does this; a child killed by a signal: minus its number.
int exit_code(const std::function<void()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    work();
    _exit(returned);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace

TEST_CASE("F003 process_events: a signal while the process starts ends it at once") {
  for (const int number : {SIGTERM, SIGINT, SIGHUP})
    CHECK(exit_code([&] {
            const process_events events;
            raise(number);
          }) == 0);
}

TEST_CASE("F003 process_events: a signal that the parent had blocked arrives all the same") {
  CHECK(exit_code([] {
          sigset_t all;
          sigfillset(&all);
          pthread_sigmask(SIG_BLOCK, &all, nullptr);
          const process_events events;
          raise(SIGTERM);
        }) == 0);
}

TEST_CASE("F003 process_events: two signals are counted while it serves, the third ends it") {
  CHECK(exit_code([] {
          process_events events;
          events.serving();
          raise(SIGTERM);
          if (!events.wait([&] { return events.signals() == 1; })) _exit(1);
          raise(SIGINT);
          if (!events.wait([&] { return events.signals() == 2; })) _exit(1);
        }) == returned);
  CHECK(exit_code([] {
          process_events events;
          events.serving();
          for (int i = 0; i < 3; ++i) raise(SIGTERM);
        }) == 128 + SIGTERM);
}

TEST_CASE("F003 process_events: a signal behind the end of serving ends the process") {
  CHECK(exit_code([] {
          { process_events().serving(); }
          raise(SIGINT);
        }) == 128 + SIGINT);
}

TEST_CASE("process_events: what nohup has ignored stays ignored") {
  CHECK(exit_code([] {
          std::signal(SIGHUP, SIG_IGN);
          const process_events events;
          raise(SIGHUP);
        }) == returned);
}

TEST_CASE("process_events: a change from another thread and the end of the time end a wait") {
  CHECK(exit_code([] {
          process_events events;
          events.serving();
          std::atomic<bool> done = false;
          const joined_thread other("troupe.test", [&] {
            done = true;
            events.changed();
          });
          if (!events.wait([&] { return done.load(); })) _exit(1);
          if (events.wait([] { return false; }, steady_clock::now())) _exit(2);
          if (!events.wait([] { return true; }, steady_clock::now())) _exit(3);
        }) == returned);
}
