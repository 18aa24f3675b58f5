#include "actors/runtime/runtime_system.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>

#include "config/threads/joined_thread.hpp"
#include "config/threads/thread_limits.hpp"

namespace troupe {
namespace {

std::uint32_t workers() {
  return std::clamp(std::thread::hardware_concurrency(), 2u, 4u);
}

/// A terminate handler: what() of the exception in flight, and the end of the process.
[[noreturn]] void end_process() {
  std::string why = "unknown error";
  try {
    if (const auto error = std::current_exception()) std::rethrow_exception(error);
  } catch (const std::exception& e) {
    why = e.what();
  } catch (...) {
  }
  const auto line =
      "troupe: the actor system cannot start its threads: " + why + " (" + thread_limits() + ")\n";
  std::fputs(line.c_str(), stderr);
  std::_Exit(2);
}

}  // namespace

struct own_system::settings : caf::actor_system_config {
  settings() {
    add_to(*this);
    set("scheduler.max-threads", std::size_t{workers()});
  }
};

std::uint32_t own_system::threads_needed() {
  return workers() + 2;
}

own_system::own_system() : config_(std::make_unique<settings>()) {
  require_threads(threads_needed());
  // When std::thread throws inside CAF 0.17's start, unwinding destroys workers that run: the
  // process crashes, aborts without a word or hangs. Between the check above and the start another
  // process may take the threads, so the start happens on a thread whose frames catch nothing:
  // there an exception reaches the terminate handler before anything is unwound.
  joined_thread start("troupe.start", [this] {
    const auto before = std::set_terminate(end_process);
    system_ = std::make_unique<caf::actor_system>(*config_);
    std::set_terminate(before);
  });
  start.join();
}

}  // namespace troupe
