#include "config/threads/joined_thread.hpp"

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>
#include <vector>

#include "config/threads/thread_limits.hpp"
#include "tests/support/refused_threads.hpp"

using namespace troupe;
using Catch::Matchers::Contains;
using troupe::test::refuse_thread;

namespace {

std::size_t own_stack() {
  pthread_attr_t mine;
  std::size_t bytes = 0;
  REQUIRE(pthread_getattr_np(pthread_self(), &mine) == 0);
  pthread_attr_getstacksize(&mine, &bytes);
  pthread_attr_destroy(&mine);
  return bytes;
}

void set_default_stack(std::size_t bytes) {
  pthread_attr_t wanted;
  pthread_attr_init(&wanted);
  REQUIRE(pthread_attr_setstacksize(&wanted, bytes) == 0);
  REQUIRE(pthread_setattr_default_np(&wanted) == 0);
  pthread_attr_destroy(&wanted);
}

/// What `ulimit -s` would have done, until the end of a test.
class default_stack {
 public:
  explicit default_stack(std::size_t bytes) { set_default_stack(bytes); }
  ~default_stack() { set_default_stack(thread_stack_bytes); }
};

}  // namespace

TEST_CASE("joined_thread: runs under its name and is joined by its destructor") {
  std::atomic<bool> ran = false;
  std::string name(16, ' ');
  {
    const joined_thread thread("troupe.test", [&] {
      pthread_getname_np(pthread_self(), name.data(), name.size());
      ran = true;
    });
    CHECK(thread.joinable());
  }
  CHECK(ran);
  CHECK(std::string(name.c_str()) == "troupe.test");
}

TEST_CASE("F003 joined_thread: a refused thread is named, with the reason and the limits") {
  std::atomic<int> ran = 0;
  refuse_thread(2);
  const joined_thread first("troupe.first", [&] { ++ran; });
  try {
    const joined_thread second("troupe.second", [&] { ++ran; });
    FAIL("the second thread was not refused");
  } catch (const thread_error& e) {
    CHECK_THAT(e.what(), Contains("troupe.second") &&
                             Contains("Resource temporarily unavailable") && Contains("is ") &&
                             !Contains("\n"));
  }
  const joined_thread third("troupe.third", [&] { ++ran; });
  CHECK(third.joinable());
}

TEST_CASE("F003 require_threads: tells needed and allowed, and leaves no thread behind") {
  const auto before = running_threads();
  require_threads(5);
  CHECK(running_threads() == before);
  refuse_thread(4);
  const auto needed = std::to_string(before + 5) + " threads are needed";
  const auto allowed = "allows " + std::to_string(before + 3) + ": ";
  CHECK_THROWS_WITH(require_threads(5), Contains(needed) && Contains(allowed));
  CHECK(running_threads() == before);
}

TEST_CASE("F023 joined_thread: its stack has the set size under a small default") {
  const default_stack small(128 * 1024);
  std::size_t bytes = 0;
  joined_thread("troupe.test", [&] { bytes = own_stack(); }).join();
  CHECK(bytes >= thread_stack_bytes);
}

TEST_CASE("F023 raise_default_stack: threads of libraries get the set size too") {
  const default_stack small(256 * 1024);
  std::size_t before = 0, after = 0;
  std::thread([&] { before = own_stack(); }).join();
  CHECK(before < thread_stack_bytes);
  raise_default_stack();
  std::thread([&] { after = own_stack(); }).join();
  CHECK(after >= thread_stack_bytes);
}

TEST_CASE("F023 raise_default_stack: a larger default stays") {
  const default_stack large(2 * thread_stack_bytes);
  raise_default_stack();
  std::size_t of_library = 0, of_ours = 0;
  std::thread([&] { of_library = own_stack(); }).join();
  joined_thread("troupe.test", [&] { of_ours = own_stack(); }).join();
  CHECK(of_library >= 2 * thread_stack_bytes);
  CHECK(of_ours >= 2 * thread_stack_bytes);
}
