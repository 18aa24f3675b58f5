#include "gpu/cpu/threads/worker_pool.hpp"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <ctime>
#include <thread>

using namespace troupe::gpu;

TEST_CASE("worker_pool: every chunk runs exactly once and its writes are visible", "[gpu]") {
  for (const std::uint32_t threads : {1u, 2u, 3u, 8u}) {
    worker_pool pool(threads);
    REQUIRE(pool.threads() == threads);
    for (std::uint32_t count : {0u, 1u, 2u, 7u, 1000u}) {
      std::vector<int> runs(count, 0);  // plain ints: the pool alone orders the writes
      pool.run(count, [&](std::uint32_t i) { ++runs[i]; });
      CHECK(std::count(runs.begin(), runs.end(), 1) == static_cast<std::ptrdiff_t>(count));
    }
  }
}

// More threads than cores and jobs that grow and shrink: a worker that wakes up late must find its
// old job closed.
TEST_CASE("worker_pool: many short jobs in a row never mix", "[gpu]") {
  worker_pool pool(8);
  std::uint64_t wrong = 0;
  for (std::uint32_t job = 0; job < 100000; ++job) {
    const std::uint32_t count = 2 + job * 7 % 23;
    std::atomic<std::uint32_t> sum{0}, runs{0};
    pool.run(count, [&](std::uint32_t i) {
      sum += job + i;
      ++runs;
    });
    wrong += runs != count || sum != count * job + count * (count - 1) / 2;
  }
  CHECK(wrong == 0);
}

TEST_CASE("worker_pool: work is shared among threads", "[gpu]") {
  worker_pool pool(2);
  std::atomic<int> inside{0}, most{0};
  pool.run(2, [&](std::uint32_t) {
    const int now = ++inside;
    int seen = most;
    while (seen < now && !most.compare_exchange_weak(seen, now)) {
    }
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(300);
    while (most < 2 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
    --inside;
  });
  CHECK(most == 2);
}

TEST_CASE("worker_pool: each thread begins with neighbours of its own", "[gpu]") {
  worker_pool pool(3);
  std::atomic<int> inside{0};
  std::atomic<std::uint32_t> begun{0};
  pool.run(12, [&](std::uint32_t i) {
    if (inside.fetch_add(1) >= 3) return;
    begun |= 1u << i;
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(300);
    while (inside < 3 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  });
  CHECK(begun == (1u << 0 | 1u << 4 | 1u << 8));
}

TEST_CASE("worker_pool: an idle pool uses less than one hundredth of a core", "[gpu]") {
  worker_pool pool(4);
  pool.run(8, [](std::uint32_t) {});
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const auto cpu = std::clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const double used = static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC;
  CHECK(used < 0.005);
}
